// Programmatic dependent launch: a kernel may be started while the one before it still runs, and
// waits itself for that one's results.

#ifndef GEMMD_KERNELS_PTX_DEPENDENT_LAUNCH_CUH_
#define GEMMD_KERNELS_PTX_DEPENDENT_LAUNCH_CUH_

#include <cuda_runtime.h>

namespace gemm {

// Waits until the kernel before has finished and its writes are visible. Where the architecture
// does not know early starts, they have finished already.
__device__ __forceinline__ void WaitForKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel after this one be started once every block has said so or has ended: it waits
// itself for the results. From then on its blocks take up what this kernel's leave free.
__device__ __forceinline__ void LetKernelAfterStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_DEPENDENT_LAUNCH_CUH_
