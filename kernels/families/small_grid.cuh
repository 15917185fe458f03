// The body of the small family's kernels whose blocks are grids of threads of any size: one block
// computes one tile of one product, 8 x 8 results a thread.
//
//   A tile_m x 32, B 32 x tile_n: a ring of two stages in shared memory. Both lie there as they lie
//   in memory, a row of A along k, a row of B along n, and come 16 bytes at a time: A is not
//   transposed on the way, a thread reads four products of each of its 8 rows at once.
//
//   Thread t is at row t / columns and column t % columns of the grid. Its rows are a grid's height
//   apart, its columns two groups of four, a grid's width apart: threads side by side read
//   neighbours and write neighbours.

#ifndef GEMMD_KERNELS_FAMILIES_SMALL_GRID_CUH_
#define GEMMD_KERNELS_FAMILIES_SMALL_GRID_CUH_

#include <cuda_runtime.h>

#include "kernels/families/small_gemm.h"
#include "kernels/families/small_tile.cuh"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// Copies elements [0, 4 * pieces) of each of the rows [0, rows), 8 lanes a row.
__device__ __forceinline__ void SmallGridCopy(uint32_t to, int pitch, const float* from, int64_t ld,
                                              int rows, int pieces, int thread, int threads) {
  constexpr int kLanes = 8;
  const int row0 = thread / kLanes;
  const int step = threads / kLanes;
  from += row0 * ld;
  to += row0 * pitch * 4;
#pragma unroll 1
  for (int piece = thread % kLanes; piece < pieces; piece += kLanes) {
    const float* source = from + piece * 4;
    uint32_t target = to + piece * 16;
#pragma unroll 4
    for (int row = row0; row < rows; row += step) {
      CopyAsync16(target, source);
      source += step * ld;
      target += step * pitch * 4;
    }
  }
}

// Copies elements [0, 4 * pieces) that lie in a run.
__device__ __forceinline__ void SmallGridCopyRun(uint32_t to, const float* from, int pieces,
                                                 int thread, int threads) {
#pragma unroll 4
  for (int piece = thread; piece < pieces; piece += threads) {
    CopyAsync16(to + piece * 16, from + piece * 4);
  }
}

__device__ __forceinline__ void SmallGridTile(const SmallGridProblem& g, uint32_t ring) {
  constexpr int kDepth = SmallGrid::kDepth;
  constexpr int kSide = SmallGrid::kSide;
  constexpr int kPitchA = SmallGrid::kPitchA;
  constexpr int kGroups = kSide / 4;  // of columns

  // By the grid's own coordinates, so that the compiler knows what is the same for all threads.
  const int64_t batch = blockIdx.z;
  const int row0 = static_cast<int>(blockIdx.y) * g.rows * kSide;
  const int column0 = static_cast<int>(blockIdx.x) * g.columns * kSide;
  const int inside_m = min(static_cast<int>(g.p.m) - row0, g.rows * kSide);
  const int inside_n = min(static_cast<int>(g.p.n) - column0, g.columns * kSide);

  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int k = static_cast<int>(g.p.k);
  const int stages = (k + kDepth - 1) / kDepth;
  const float* const a = g.p.a + batch * g.p.a_batch + row0 * g.p.a_row;
  const float* const b = g.p.b + batch * g.p.b_batch + column0;
  // Rows of B that follow each other in memory do so here too.
  const bool run_b = inside_n == g.p.n && g.p.b_row == g.p.n;
  const int pitch_b = run_b ? inside_n : g.columns * kSide;
  const int b_bytes = g.rows * kSide * kPitchA * 4;
  const int stage_bytes = b_bytes + kDepth * g.columns * kSide * 4;
  const auto fetch = [&](int stage) {
    if (stage < stages) {
      const uint32_t to = ring + stage % 2 * stage_bytes;
      const int first = stage * kDepth;
      const int depth = min(kDepth, k - first);
      SmallGridCopy(to, kPitchA, a + first, g.p.a_row, inside_m, depth / 4, thread, threads);
      const float* const rows = b + first * g.p.b_row;
      if (run_b) {
        SmallGridCopyRun(to + b_bytes, rows, depth * inside_n / 4, thread, threads);
      } else {
        SmallGridCopy(to + b_bytes, pitch_b, rows, g.p.b_row, depth, inside_n / 4, thread, threads);
      }
    }
    CommitCopies();
  };
  fetch(0);

  const int grid_row = min(thread / g.columns, g.rows - 1);
  const int grid_column = thread % g.columns;
  uint32_t at_a[kSide];
  uint32_t at_b[kGroups];
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    at_a[i] = ring + (i * g.rows + grid_row) * kPitchA * 4;
    asm volatile("" : "+r"(at_a[i]));  // a register of its own, not a sum for every load
  }
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    at_b[j] = ring + b_bytes + (j * g.columns + grid_column) * 16;
    asm volatile("" : "+r"(at_b[j]));
  }
  float sum[kSide][kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) sum[i][j] = 0;
  }
  float x[kSide][4];
  float y[2][kSide];
  const auto load_a = [&](int i, uint32_t from) {
    const float4 v = LoadShared4(at_a[i] + from);
    x[i][0] = v.x;
    x[i][1] = v.y;
    x[i][2] = v.z;
    x[i][3] = v.w;
  };
  const auto load_b = [&](int buffer, uint32_t from) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const float4 v = LoadShared4(at_b[j] + from);
      y[buffer][4 * j] = v.x;
      y[buffer][4 * j + 1] = v.y;
      y[buffer][4 * j + 2] = v.z;
      y[buffer][4 * j + 3] = v.w;
    }
  };
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    WaitForCopies();
    __syncthreads();
    fetch(stage + 1);
    const uint32_t from = stage % 2 * stage_bytes;
    const int depth = min(kDepth, k - stage * kDepth);
#pragma unroll
    for (int i = 0; i < kSide; ++i) load_a(i, from);
    load_b(0, from);
#pragma unroll 1
    for (int l0 = 0; l0 < depth; l0 += 4) {
      // The last loads of a stage are of what nobody needs.
      const int next = l0 + 4 < depth ? l0 + 4 : 0;
#pragma unroll
      for (int l = 0; l < 4; ++l) {
        load_b((l + 1) % 2, from + (l < 3 ? l0 + l + 1 : next) * pitch_b * 4);
        // Each multiply-add shares an operand with the one before, for the register reuse cache.
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
#pragma unroll
          for (int r = 0; r < kSide; ++r) {
            const int q = i % 2 != 0 ? kSide - 1 - r : r;
            const int j = q % 4 * 2 + q / 4;
            sum[i][j] = MultiplyAdd(x[i][l], y[l % 2][j], sum[i][j]);
          }
          if (l == 3) load_a(i, from + next * 4);
        }
      }
    }
  }

  if (thread >= g.rows * g.columns) return;
  // A copy: the compiler need not fear that a store to D changes it.
  const StridedGemm<float> p = g.p;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    const int row = i * g.rows + grid_row;
    if (row >= inside_m) break;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      float result[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) result[e] = sum[i][j * 4 + e];
      SmallStore<4>(p, true, batch, row0 + row, column0 + (j * g.columns + grid_column) * 4,
                    result);
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SMALL_GRID_CUH_
