// What the threads of a warp or of a warp group (4 warps, the first a multiple of 4) do together.
// sm_90a.

#ifndef GEMMD_KERNELS_PTX_WARPGROUP_CUH_
#define GEMMD_KERNELS_PTX_WARPGROUP_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace gemm {

// Hands registers back, or waits until others have handed back enough. Multiples of 8.
template <int kRegisters>
__device__ __forceinline__ void ShrinkRegistersTo() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void GrowRegistersTo() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// True in one thread of a whole warp.
__device__ __forceinline__ bool ElectOne() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred one;\n"
      "elect.sync _|one, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, one;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// A barrier of its own (1..15) among the first kThreads threads that come to it.
template <int kBarrier, int kThreads>
__device__ __forceinline__ void NamedBarrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_WARPGROUP_CUH_
