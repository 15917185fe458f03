// Comparing two results on the device, where they are.

#ifndef GEMMD_KERNELS_BENCH_COUNT_DIFFERENT_H_
#define GEMMD_KERNELS_BENCH_COUNT_DIFFERENT_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace gemm {

// Adds the number of 4-byte words that differ to *count, which is on the device.
[[nodiscard]] cudaError_t CountDifferent(const void* one, const void* two, size_t bytes,
                                         unsigned* count, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_COUNT_DIFFERENT_H_
