// cp.async: copies from global to shared memory that do not pass through registers. Of the 4, 8 or
// 16 bytes written only the first `bytes` are read, the rest become 0; with 0 bytes nothing is
// read.

#ifndef GEMMD_KERNELS_PTX_CP_ASYNC_CUH_
#define GEMMD_KERNELS_PTX_CP_ASYNC_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace gemm {

__device__ __forceinline__ void CopyAsync4(uint32_t to, const float* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// All 4 bytes, which takes fewer instructions.
__device__ __forceinline__ void CopyAsync4(uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void CopyAsync8(uint32_t to, const double* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// Past the L1 cache. Both addresses are 16-byte aligned.
__device__ __forceinline__ void CopyAsync16(uint32_t to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// All 16 bytes, which takes fewer instructions.
__device__ __forceinline__ void CopyAsync16(uint32_t to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Makes this thread's copies since the last call a group, which may be empty.
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kYoungest of this thread's groups are under way: the latest ones.
template <int kYoungest>
__device__ __forceinline__ void WaitForCopyGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kYoungest) : "memory");
}

// Waits for all of this thread's copies.
__device__ __forceinline__ void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_CP_ASYNC_CUH_
