// C (m x n) = alpha A (m x k) B (k x n), m <= kRows <= 32, strict FP32: the best for m of 8 to 32.
//
// A CTA owns a strip of 32 columns and, of k, slab blockIdx.y. A ring of stages of kDepth k holds a
// box of B (kDepth x 32) and of A (kRows x kDepth), filled by TMA from thread 0. A warp takes units
// of 16 k of a stage; its lanes are 8 groups of 4 columns x 4 groups of 4 k. Sums meet in shared
// memory in a fixed order; with several slabs they are parts for add_parts.cuh.

#ifndef GEMMD_KERNELS_LAB_DEVICE_SKINNY_RING_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_SKINNY_RING_CUH_

#include "primitives.cuh"

namespace lab {

template <int kRows, int kWarps, int kDepth, int kStages>
struct SkinnyRingConfig {
  static constexpr int kBBytes = kDepth * 128;
  static constexpr int kABytes = kRows * kDepth * 4;
  static constexpr int kStageBytes = kABytes + kBBytes;
  static constexpr int kSumBytes = kWarps * 4 * kRows * 8 * 16;
  static constexpr int kSharedBytes =
      (kStageBytes * kStages > kSumBytes ? kStageBytes * kStages : kSumBytes) + 256;
};

template <int kRows, int kWarps, int kDepth, int kStages>
__global__ void __launch_bounds__(kWarps * 32, 1)
    SkinnyRing(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
               float* __restrict__ c, int m, int n, int k, int stages_per_slab, float alpha) {
  using F = SkinnyRingConfig<kRows, kWarps, kDepth, kStages>;
  extern __shared__ __align__(1024) char raw[];
  __shared__ __align__(8) uint64_t barrier[2 * kStages];  // full, then empty
  uint32_t base = (SharedAddress(raw) + 127) & ~127u, barriers = SharedAddress(barrier),
           offset = base - SharedAddress(raw);
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      BarrierInit(barriers + s * 8, 1);
      BarrierInit(barriers + (kStages + s) * 8, kWarps);
    }
    BarrierInitFence();
  }
  __syncthreads();
  int all_stages = (k + kDepth - 1) / kDepth, t0 = blockIdx.y * stages_per_slab,
      t1 = min(all_stages, t0 + stages_per_slab);
  auto fill = [&](int t) {
    int s = (t - t0) % kStages;
    uint32_t full = barriers + s * 8, stage = base + s * F::kStageBytes;
    BarrierExpect(full, F::kStageBytes);
    CopyBox(stage + F::kABytes, &map_b, blockIdx.x * 32, t * kDepth, full);
    CopyBox(stage, &map_a, t * kDepth, 0, full);
  };
  if (threadIdx.x == 0) {
    for (int t = t0; t < min(t1, t0 + kStages); ++t) fill(t);
  }
  float sum[kRows][4];
#pragma unroll
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = 0.f;
  int column_group = lane & 7, g = lane >> 3;
  if (warp < kWarps) {
    int s = 0;
    uint32_t parity = 0;
    for (int t = t0; t < t1; ++t) {
      BarrierWait(barriers + s * 8, parity);
      if (threadIdx.x == 0 && t > t0 && t - 1 + kStages < t1) {
        int q = t - 1 - t0;
        BarrierWait(barriers + (kStages + q % kStages) * 8, (q / kStages) & 1);
        fill(t - 1 + kStages);
      }
      __syncwarp();
      uint32_t stage = base + s * F::kStageBytes;
#pragma unroll
      for (int u = 0; u < kDepth / 16 / kWarps; ++u) {
        int kk = (u * kWarps + warp) * 16 + g * 4;
        float4 b[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          b[e] = LoadShared4(stage + F::kABytes + (kk + e) * 128 + column_group * 16);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float4 v = LoadShared4(stage + (r * kDepth + kk) * 4);
          const float a[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sum[r][0] = fmaf(a[e], b[e].x, sum[r][0]);
            sum[r][1] = fmaf(a[e], b[e].y, sum[r][1]);
            sum[r][2] = fmaf(a[e], b[e].z, sum[r][2]);
            sum[r][3] = fmaf(a[e], b[e].w, sum[r][3]);
          }
        }
      }
      __syncwarp();
      if (lane == 0) BarrierArrive(barriers + (kStages + s) * 8);
      if (++s == kStages) {
        s = 0;
        parity ^= 1;
      }
    }
  }
  __syncthreads();
  float4* parts = (float4*)(raw + offset);  // [warp][k group][row][column group]
  if (warp < kWarps) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      parts[((warp * 4 + g) * kRows + r) * 8 + column_group] =
          make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    }
  }
  __syncthreads();
  if (warp < kWarps) {
    float* out = c + (size_t)blockIdx.y * m * n;
    // kShare threads add the kWarps * 4 sums of one float4.
    constexpr int kResults = kRows * 8, kRoom = kWarps * 32 / kResults,
                  kShare = kRoom < 1   ? 1
                           : kRoom > 8 ? 8
                                       : kRoom,
                  kPer = kWarps * 4 / kShare;
    for (int q = threadIdx.x; q < kResults * kShare; q += kWarps * 32) {
      int e = q / kShare, z0 = q % kShare;
      float4 v = parts[z0 * kPer * kResults + e];
#pragma unroll 8
      for (int z = 1; z < kPer; ++z) {
        float4 w = parts[(z0 * kPer + z) * kResults + e];
        v.x += w.x;
        v.y += w.y;
        v.z += w.z;
        v.w += w.w;
      }
#pragma unroll
      for (int o = 1; o < kShare; o <<= 1) {
        v.x += __shfl_xor_sync(~0u, v.x, o);
        v.y += __shfl_xor_sync(~0u, v.y, o);
        v.z += __shfl_xor_sync(~0u, v.z, o);
        v.w += __shfl_xor_sync(~0u, v.w, o);
      }
      int r = e / 8, column = blockIdx.x * 32 + (e % 8) * 4;
      if (z0 == 0 && r < m && column < n) {
        *(float4*)(out + (size_t)r * n + column) =
            make_float4(alpha * v.x, alpha * v.y, alpha * v.z, alpha * v.w);
      }
    }
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_SKINNY_RING_CUH_
