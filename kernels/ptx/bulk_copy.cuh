// The tensor copy engine: boxes of an array in global memory, described by a tensor map, and runs
// of bytes, into shared memory. What lies outside the array reads as 0. sm_90.

#ifndef GEMMD_KERNELS_PTX_BULK_COPY_CUH_
#define GEMMD_KERNELS_PTX_BULK_COPY_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace gemm {

// Arrives at the barrier, whose phase then also waits for that many bytes of boxes.
__device__ __forceinline__ void BarrierArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Copies the box whose first element is (x, y, z), x along the contiguous dimension. `to` is a
// multiple of 128. All of the box counts towards what the barrier expects, inside or not.
__device__ __forceinline__ void CopyBox(uint32_t to, const CUtensorMap* map, int x, int y, int z,
                                        uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// Brings the same box into the L2 cache.
__device__ __forceinline__ void PrefetchBox(const CUtensorMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map),
               "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Fetches a map before the first box is asked for.
__device__ __forceinline__ void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Makes initialised barriers visible to the copy engine; __syncthreads follows.
__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Copies a run of bytes. Both addresses and their number are multiples of 16.
__device__ __forceinline__ void CopyRun(uint32_t to, const void* from, uint32_t bytes,
                                        uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// The other way round. Returns when shared memory has been read.
__device__ __forceinline__ void StoreRun(void* to, uint32_t from, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 0;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

// Boxes asked for behind the barrier that follows come after this thread's stores to shared memory,
// and after its loads from it.
__device__ __forceinline__ void OrderBoxesBehindAccesses() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The same of global memory: boxes that are read see what was stored before, by this thread or by
// others whose release it has acquired.
__device__ __forceinline__ void OrderBoxesBehindGlobalAccesses() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_BULK_COPY_CUH_
