// mbarrier: a barrier in shared memory with phases, on which copies can arrive. sm_90.

#ifndef GEMMD_KERNELS_PTX_MBARRIER_CUH_
#define GEMMD_KERNELS_PTX_MBARRIER_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace gemm {

__device__ __forceinline__ void BarrierInit(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void BarrierArrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives once this thread's cp.async copies so far have landed. Counts as one of the arrivals
// that the barrier was made for.
__device__ __forceinline__ void BarrierArriveAfterCopies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity is over. On a new barrier parity 1 is over already.
__device__ __forceinline__ void BarrierWait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_MBARRIER_CUH_
