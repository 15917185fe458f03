#include <algorithm>

#include "kernels/families/launch_attributes.h"
#include "kernels/families/pack_rows.h"
#include "kernels/ptx/dependent_launch.cuh"

namespace gemm {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;

__global__ void __launch_bounds__(kThreads) PackRows(const __grid_constant__ RowPacking p) {
  WaitForKernelBefore();
  LetKernelAfterStart();
  const int64_t elements = p.matrices * p.rows * p.elements;
  // Divisions of 64 bits would take longer than the copy.
  const bool small = elements <= 0xffffffff;
  const auto divide = [&](int64_t value, int64_t by) {
    return small ? int64_t{static_cast<uint32_t>(value) / static_cast<uint32_t>(by)} : value / by;
  };
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = divide(i, p.elements);
    const int64_t matrix = divide(row, p.rows);
    const int64_t e = i - row * p.elements;
    p.to[row * p.pitch + e] =
        p.from[matrix * p.batch_stride + (row - matrix * p.rows) * p.row_stride + e];
  }
}

}  // namespace

cudaError_t PreparePackRows() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, PackRows);
}

cudaError_t LaunchPackRows(const RowPacking& packing, cudaStream_t stream) {
  const int64_t elements = packing.matrices * packing.rows * packing.elements;
  const int64_t blocks = std::min((elements + kThreads - 1) / kThreads, kMaxBlocks);
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, PackRows, packing);
}

}  // namespace gemm
