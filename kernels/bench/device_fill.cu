#include "kernels/bench/device_fill.h"

namespace gemm {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 132 * 8;  // a grid-stride loop: the exact count does not matter

template <typename T>
__global__ void __launch_bounds__(kThreads)
    FillKernel(T* data, int64_t elements, bool reals, uint64_t seed) {
  const DType dtype = sizeof(T) == sizeof(float) ? DType::kF32 : DType::kF64;
  const Fill fill = reals ? Fill::kReals : Fill::kIntegers;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    data[i] = static_cast<T>(FilledValue(dtype, fill, seed, i));
  }
}

}  // namespace

cudaError_t DeviceFill(DType dtype, void* data, int64_t elements, Fill fill, uint64_t seed,
                       cudaStream_t stream) {
  const bool reals = fill == Fill::kReals;
  if (dtype == DType::kF32) {
    FillKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(data), elements, reals, seed);
  } else {
    FillKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<double*>(data), elements, reals, seed);
  }
  return cudaGetLastError();
}

}  // namespace gemm
