// The few PTX instructions that the kernels of this laboratory use, and the order of tiles.

#ifndef GEMMD_KERNELS_LAB_DEVICE_PRIMITIVES_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_PRIMITIVES_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace lab {

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void BarrierInit(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void BarrierExpect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void BarrierArrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void BarrierWait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra D;\nbra W;\nD:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Copies the box of `map` whose first element is (x, y), x along the contiguous dimension.
__device__ __forceinline__ void CopyBox(uint32_t to, const CUtensorMap* map, int x, int y,
                                        uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2,%3}], [%4];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// Copies `bytes` (0 or 4) and fills up to 4 with zeros.
__device__ __forceinline__ void CopyAsync4(uint32_t to, const float* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// Arrives at the barrier when this thread's copies so far are done.
__device__ __forceinline__ void CopyAsyncArrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ float4 LoadShared4(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address));
  return v;
}

// Tiles go down groups of `group` tile rows, so that tiles that run together share L2 lines.
__device__ __forceinline__ void TileOf(int tile, int tiles_m, int tiles_n, int group, int& tile_m,
                                       int& tile_n) {
  int per = group * tiles_n, g = tile / per, r = tile - g * per,
      height = min(group, tiles_m - g * group);
  tile_m = g * group + r % height;
  tile_n = r / height;
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_PRIMITIVES_CUH_
