// Brings memory into a cache without waiting for it.

#ifndef GEMMD_KERNELS_PTX_PREFETCH_CUH_
#define GEMMD_KERNELS_PTX_PREFETCH_CUH_

#include <cuda_runtime.h>

namespace gemm {

// The L2 cache is where writes of other kernels end up: what they write after this is not missed.
__device__ __forceinline__ void PrefetchToL2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_PREFETCH_CUH_
