// Counters in global memory by which blocks tell each other what they have written.

#ifndef GEMMD_KERNELS_PTX_GLOBAL_COUNTER_CUH_
#define GEMMD_KERNELS_PTX_GLOBAL_COUNTER_CUH_

#include <cuda_runtime.h>

namespace gemm {

// Who sees the sum sees what was written before, by threads that this one has met behind a barrier
// too.
__device__ __forceinline__ void AddRelease(int* counter, int addend) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(counter), "r"(addend) : "memory");
}

__device__ __forceinline__ int AddAcquireRelease(int* counter, int addend) {
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(addend)
               : "memory");
  return before;
}

// To wait for a sum: an acquiring load would throw away the L1 cache every time. Once it is there,
// AcquireFence() follows.
__device__ __forceinline__ int LoadRelaxed(const int* counter) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

__device__ __forceinline__ void AcquireFence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_GLOBAL_COUNTER_CUH_
