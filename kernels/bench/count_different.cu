#include "kernels/bench/count_different.h"

namespace gemm {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 132 * 8;  // a grid-stride loop: the exact count does not matter

__global__ void __launch_bounds__(kThreads)
    CountKernel(const uint32_t* one, const uint32_t* two, size_t words, unsigned* count) {
  unsigned different = 0;
  const size_t step = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += step) {
    different += one[i] != two[i] ? 1 : 0;
  }
  if (different != 0) atomicAdd(count, different);
}

}  // namespace

cudaError_t CountDifferent(const void* one, const void* two, size_t bytes, unsigned* count,
                           cudaStream_t stream) {
  CountKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint32_t*>(one),
                                                static_cast<const uint32_t*>(two),
                                                bytes / sizeof(uint32_t), count);
  return cudaGetLastError();
}

}  // namespace gemm
