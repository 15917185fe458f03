// C = alpha A B, strict FP32, every tile by one CTA; CTAs are persistent. The k range may be cut
// into `splits` parts whose sums go to a workspace and are added by add_parts.cuh. See tile.cuh.

#ifndef GEMMD_KERNELS_LAB_DEVICE_DATA_PARALLEL_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_DATA_PARALLEL_CUH_

#include "tile.cuh"

namespace lab {

struct DataParallelArguments {
  const float* a;
  const float* b;
  float* c;  // or the workspace: splits times m x n
  int m, n, k, lda, ldb, ldc;
  int tiles_m, tiles_n, group, splits, stages_per_split;
  float alpha;
};

template <int kLaneRows, int kWarpsM, int kWarpsN, int kSlices, int kDepth, int kStages, int kA,
          int kB, int kUnroll, int kBlocksPerSm, int kConsumerRegisters, int kProducerRegisters>
__global__ void __launch_bounds__(TileThreads(kWarpsM, kWarpsN, kSlices), kBlocksPerSm)
    DataParallel(const __grid_constant__ CUtensorMap map_a,
                 const __grid_constant__ CUtensorMap map_b, const DataParallelArguments p) {
  using F = TileConfig<kLaneRows, kWarpsM, kWarpsN, kSlices, kDepth, kStages, kA, kB>;
  extern __shared__ __align__(1024) char raw[];
  uint32_t base = (SharedAddress(raw) + 127) & ~127u, barriers = base + F::kStageBytes * kStages;
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  InitBarriers<F, kStages>(barriers);
  const int tiles = p.tiles_m * p.tiles_n * p.splits, all_stages = (p.k + kDepth - 1) / kDepth;
  if (warp >= F::kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    int producer = threadIdx.x - F::kConsumers * 32;
    if ((kA || kB) || producer == 0) {
      int stage = 0;
      uint32_t parity = 1;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        int split = t / (p.tiles_m * p.tiles_n), tile_m, tile_n;
        TileOf(t - split * p.tiles_m * p.tiles_n, p.tiles_m, p.tiles_n, p.group, tile_m, tile_n);
        int k0 = split * p.stages_per_split, k1 = min(all_stages, k0 + p.stages_per_split);
        for (int k = k0; k < k1; ++k) {
          BarrierWait(barriers + 64 + stage * 8, parity);
          FillStage<F, kDepth, kA, kB>(p, p.b, p.ldb, map_a, map_b, tile_m, tile_n, k,
                                       base + stage * F::kStageBytes, barriers + stage * 8,
                                       producer, lane);
          if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      if constexpr (F::kAnyWords) asm volatile("cp.async.wait_all;" ::: "memory");
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    const Place<F, kLaneRows, kWarpsM, kWarpsN> place(warp, lane);
    int stage = 0;
    uint32_t parity = 0;
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      int split = t / (p.tiles_m * p.tiles_n), tile_m, tile_n;
      TileOf(t - split * p.tiles_m * p.tiles_n, p.tiles_m, p.tiles_n, p.group, tile_m, tile_n);
      int k0 = split * p.stages_per_split, k1 = min(all_stages, k0 + p.stages_per_split);
      int stages = k1 - k0;
      float c[8][16], a[2][8], b[2][16];
      Clear(c);
      uint32_t current = base + stage * F::kStageBytes;
      if (stages > 0) {
        BarrierWait(barriers + stage * 8, parity);
        LoadFragments<F, kLaneRows>(a[0], b[0], current + place.a_offset, current + place.b_offset);
      }
      for (int k = 0; k < stages; ++k) {
        int next_stage = stage + 1 == kStages ? 0 : stage + 1;
        uint32_t next_parity = stage + 1 == kStages ? parity ^ 1 : parity;
        uint32_t next = base + next_stage * F::kStageBytes;
        MultiplyStage<F, kLaneRows, kUnroll>(c, a, b, place, current, next, k + 1 < stages,
                                             barriers + next_stage * 8, next_parity);
        __syncwarp();
        if (lane == 0) BarrierArrive(barriers + 64 + stage * 8);
        stage = next_stage;
        parity = next_parity;
        current = next;
      }
      float* out = p.c + (size_t)split * p.m * p.ldc;
      int row = place.Row(tile_m), column = place.Column(tile_n);
      bool by_four = (p.ldc & 3) == 0;
      auto store = [&](int i, int q, float x, float y, float z, float w) {
        StoreFour(out, p.m, p.n, p.ldc, by_four, row + (i >> 2) * 4 * kLaneRows + (i & 3),
                  column + q * F::kLaneColumns * 4, x, y, z, w);
      };
      if constexpr (kSlices == 1) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            store(i, q, p.alpha * c[i][q * 4], p.alpha * c[i][q * 4 + 1], p.alpha * c[i][q * 4 + 2],
                  p.alpha * c[i][q * 4 + 3]);
          }
        }
      } else {
        // Slices meet in shared memory, added in order; every stage has been consumed by then.
        // (For one tile per CTA only: a producer that ran ahead would overwrite the sums.)
        static_assert(F::kStageBytes * kStages >= F::kConsumers * 16384, "room for all sums");
        asm volatile("bar.sync 1, %0;" ::"n"(F::kConsumers * 32) : "memory");
        float4* sums = (float4*)(raw + (base - SharedAddress(raw)));
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            sums[(warp * 32 + i * 4 + q) * 32 + lane] =
                make_float4(p.alpha * c[i][q * 4], p.alpha * c[i][q * 4 + 1],
                            p.alpha * c[i][q * 4 + 2], p.alpha * c[i][q * 4 + 3]);
          }
        }
        asm volatile("bar.sync 1, %0;" ::"n"(F::kConsumers * 32) : "memory");
#pragma unroll
        for (int e = 0; e < 32 / kSlices; ++e) {
          int id = place.slice * (32 / kSlices) + e;
          float4 v = sums[(place.warp_in_tile * 32 + id) * 32 + lane];
#pragma unroll
          for (int z = 1; z < kSlices; ++z) {
            float4 w = sums[((z * kWarpsM * kWarpsN + place.warp_in_tile) * 32 + id) * 32 + lane];
            v.x += w.x;
            v.y += w.y;
            v.z += w.z;
            v.w += w.w;
          }
          store(id >> 2, id & 3, v.x, v.y, v.z, v.w);
        }
      }
    }
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_DATA_PARALLEL_CUH_
