// As data_parallel.cuh, but the tiles that do not fill a wave are cut along k over all CTAs
// (stream-K), first; whole tiles follow. Sums of a cut tile go to a workspace, and at the end each
// of its contributors adds its share of the tile, in the order of k: the result does not depend on
// timing. It does depend on the number of SMs, by where the cuts fall.

#ifndef GEMMD_KERNELS_LAB_DEVICE_STREAM_K_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_STREAM_K_CUH_

#include "tile.cuh"

namespace lab {

struct StreamKArguments {
  const float* a;
  float* c;
  float4* workspace;  // two tiles of sums a CTA
  int* counters;      // two a cut tile, zero before and after: parts written, contributors done
  int m, n, k, lda, ldc;
  int tiles_m, tiles_n, group;
  int stages;       // of a whole tile
  int whole_tiles;  // a multiple of the grid
  int cut_tiles;
  int contributors;  // CTAs that share the cut tiles
  float alpha;
};

// part: -1 for a whole tile, else which of its CTA's two parts in the workspace.
struct StreamKWork {
  int tile, k0, k1, part;
};

// The first stage of contributor `cta`, counted through the cut tiles.
__device__ __forceinline__ int StreamKStart(const StreamKArguments& p, int cta, int contributors) {
  return (int)((long long)cta * (p.cut_tiles * p.stages) / contributors);
}

// Into how many tiles the share of `cta` falls: 0, 1 or 2 (shares are at most a tile long).
__device__ __forceinline__ int StreamKSegments(const StreamKArguments& p, int cta,
                                               int contributors) {
  int s0 = StreamKStart(p, cta, contributors), s1 = StreamKStart(p, cta + 1, contributors);
  return s0 == s1 ? 0 : s1 > (s0 / p.stages + 1) * p.stages ? 2 : 1;
}

__device__ __forceinline__ StreamKWork StreamKSegment(const StreamKArguments& p, int cta,
                                                      int contributors, int i) {
  int s0 = StreamKStart(p, cta, contributors), s1 = StreamKStart(p, cta + 1, contributors),
      t = s0 / p.stages + i;
  StreamKWork w;
  w.tile = p.whole_tiles + t;
  w.k0 = max(s0 - t * p.stages, 0);
  w.k1 = min(s1 - t * p.stages, p.stages);
  w.part = (w.k0 == 0 && w.k1 == p.stages) ? -1 : i;
  return w;
}

// Piece `w` of the work of `cta`: its segments, then whole tiles.
__device__ __forceinline__ StreamKWork StreamKPiece(const StreamKArguments& p, int cta,
                                                    int contributors, int segments, int w) {
  if (w < segments) return StreamKSegment(p, cta, contributors, w);
  StreamKWork r;
  r.tile = (w - segments) * (int)gridDim.x + cta;
  r.k0 = 0;
  r.k1 = p.stages;
  r.part = -1;
  return r;
}

template <int kLaneRows, int kWarpsM, int kWarpsN, int kSlices, int kDepth, int kStages, int kA,
          int kB, int kUnroll, int kBlocksPerSm, int kConsumerRegisters, int kProducerRegisters>
__global__ void __launch_bounds__(TileThreads(kWarpsM, kWarpsN, kSlices), kBlocksPerSm)
    StreamK(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
            const StreamKArguments p) {
  using F = TileConfig<kLaneRows, kWarpsM, kWarpsN, kSlices, kDepth, kStages, kA, kB>;
  static_assert(kSlices == 1 && kB == kBByTma, "the others were not needed");
  extern __shared__ __align__(1024) char raw[];
  uint32_t base = (SharedAddress(raw) + 127) & ~127u, barriers = base + F::kStageBytes * kStages;
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  InitBarriers<F, kStages>(barriers);
  const int contributors = p.contributors, cta = blockIdx.x,
            segments =
                cta < contributors && p.cut_tiles > 0 ? StreamKSegments(p, cta, contributors) : 0,
            pieces = segments + p.whole_tiles / gridDim.x;
  if (warp >= F::kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    int producer = threadIdx.x - F::kConsumers * 32;
    if ((kA || kB) || producer == 0) {
      int stage = 0;
      uint32_t parity = 1;
      for (int w = 0; w < pieces; ++w) {
        StreamKWork work = StreamKPiece(p, cta, contributors, segments, w);
        int tile_m, tile_n;
        TileOf(work.tile, p.tiles_m, p.tiles_n, p.group, tile_m, tile_n);
        int k0 = work.k0, k1 = work.k1;
        for (int k = k0; k < k1; ++k) {
          BarrierWait(barriers + 64 + stage * 8, parity);
          FillStage<F, kDepth, kA, kB>(p, nullptr, 0, map_a, map_b, tile_m, tile_n, k,
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
    for (int w = 0; w < pieces; ++w) {
      StreamKWork work = StreamKPiece(p, cta, contributors, segments, w);
      int tile_m, tile_n;
      TileOf(work.tile, p.tiles_m, p.tiles_n, p.group, tile_m, tile_n);
      int stages = work.k1 - work.k0;
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
      int row = place.Row(tile_m), column = place.Column(tile_n);
      bool by_four = (p.ldc & 3) == 0;
      if (work.part < 0) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            StoreFour(p.c, p.m, p.n, p.ldc, by_four, row + (i >> 2) * 4 * kLaneRows + (i & 3),
                      column + q * F::kLaneColumns * 4, p.alpha * c[i][q * 4],
                      p.alpha * c[i][q * 4 + 1], p.alpha * c[i][q * 4 + 2],
                      p.alpha * c[i][q * 4 + 3]);
          }
        }
      } else {
        float4* to =
            p.workspace + (size_t)(2 * cta + work.part) * (F::kConsumers * 1024) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            __stcg(to + (i * 4 + q) * (F::kConsumers * 32),
                   make_float4(p.alpha * c[i][q * 4], p.alpha * c[i][q * 4 + 1],
                               p.alpha * c[i][q * 4 + 2], p.alpha * c[i][q * 4 + 3]));
          }
        }
        __threadfence();
        asm volatile("bar.sync 1, %0;" ::"n"(F::kConsumers * 32) : "memory");
        if (threadIdx.x == 0) atomicAdd(p.counters + 2 * (work.tile - p.whole_tiles), 1);
      }
    }
    // Every contributor of a cut tile adds its share of the tile's results.
    for (int segment = 0; segment < segments; ++segment) {
      StreamKWork work = StreamKSegment(p, cta, contributors, segment);
      if (work.part < 0) continue;
      int t = work.tile - p.whole_tiles, lo = t * p.stages, hi = lo + p.stages,
          first = (int)((long long)lo * contributors / (p.cut_tiles * p.stages)), last;
      while (first > 0 && StreamKStart(p, first, contributors) > lo) --first;
      while (StreamKStart(p, first + 1, contributors) <= lo) ++first;
      last = first;
      while (StreamKStart(p, last + 1, contributors) < hi) ++last;
      int count = last - first + 1, me = cta - first;
      if (threadIdx.x == 0) {
        int written;
        do {
          asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                       : "=r"(written)
                       : "l"(p.counters + 2 * t)
                       : "memory");
        } while (written < count);
      }
      asm volatile("bar.sync 1, %0;" ::"n"(F::kConsumers * 32) : "memory");
      int tile_m, tile_n;
      TileOf(work.tile, p.tiles_m, p.tiles_n, p.group, tile_m, tile_n);
      int row0 = place.Row(tile_m), column0 = place.Column(tile_n);
      bool by_four = (p.ldc & 3) == 0;
      // A contributor other than the first starts inside the tile, so the tile is its first
      // segment; the first may have it as its second.
      const float4* parts = p.workspace + threadIdx.x;
      size_t step = (size_t)2 * (F::kConsumers * 1024),
             part0 = (size_t)(2 * first +
                              (StreamKStart(p, first, contributors) / p.stages == t ? 0 : 1)) *
                     (F::kConsumers * 1024),
             part1 = (size_t)(2 * first) * (F::kConsumers * 1024);
      int id = 32 * me / count, id_end = 32 * (me + 1) / count;
#pragma unroll 4
      for (; id < id_end; ++id) {
        size_t offset = (size_t)id * (F::kConsumers * 32);
        float4 v = __ldcg(parts + part0 + offset);
        int z = 1;
        for (; z + 4 <= count; z += 4) {
          float4 x[4];
#pragma unroll
          for (int y = 0; y < 4; ++y)
            x[y] = __ldcg(parts + part1 + (size_t)(z + y) * step + offset);
#pragma unroll
          for (int y = 0; y < 4; ++y) {
            v.x += x[y].x;
            v.y += x[y].y;
            v.z += x[y].z;
            v.w += x[y].w;
          }
        }
        for (; z < count; ++z) {
          float4 x = __ldcg(parts + part1 + (size_t)z * step + offset);
          v.x += x.x;
          v.y += x.y;
          v.z += x.z;
          v.w += x.w;
        }
        int i = id >> 2, q = id & 3;
        int row = row0 + (i >> 2) * 4 * kLaneRows + (i & 3),
            column = column0 + q * F::kLaneColumns * 4;
        if (row < p.m) {
          float* to = p.c + (size_t)row * p.ldc + column;
          if (by_four) {
            if (column < p.n) *(float4*)to = v;
          } else {
            if (column < p.n) to[0] = v.x;
            if (column + 1 < p.n) to[1] = v.y;
            if (column + 2 < p.n) to[2] = v.z;
            if (column + 3 < p.n) to[3] = v.w;
          }
        }
      }
      // The last contributor leaves the counters as it found them.
      if (threadIdx.x == 0 && atomicAdd(p.counters + 2 * t + 1, 1) == count - 1) {
        p.counters[2 * t + 1] = 0;
        __threadfence();
        p.counters[2 * t] = 0;
      }
    }
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_STREAM_K_CUH_
