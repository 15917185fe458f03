// Clusters: blocks that run at the same time and reach each other's shared memory. sm_90; on others
// every block is a cluster of its own, as it is here when launched without clusters.

#ifndef GEMMD_KERNELS_PTX_CLUSTER_CUH_
#define GEMMD_KERNELS_PTX_CLUSTER_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace gemm {

__device__ __forceinline__ int ClusterSize() {
#if __CUDA_ARCH__ >= 900
  uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return static_cast<int>(size);
#else
  return 1;
#endif
}

__device__ __forceinline__ int ClusterRank() {
#if __CUDA_ARCH__ >= 900
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}

// A barrier of all threads of the cluster's blocks, in two halves: who has waited sees what the
// others wrote to shared memory before they arrived.
__device__ __forceinline__ void ClusterArrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void ClusterWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}

// Stores to what `address`, of this block's shared memory, is in the block of that rank. That block
// has to have begun.
__device__ __forceinline__ void StoreToBlock(uint32_t address, int rank, float value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.f32 [there], %2;\n"
      "}" ::"r"(address),
      "r"(rank), "f"(value)
      : "memory");
#else
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
#endif
}

// 16 bytes at what `address`, of this block's shared memory and 16-byte aligned, is in the block of
// that rank.
__device__ __forceinline__ float4 LoadFromBlock4(uint32_t address, int rank) {
  float4 v;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(address), "r"(rank)
      : "memory");
#else
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
#endif
  return v;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_CLUSTER_CUH_
