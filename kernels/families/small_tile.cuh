// The body of the small family's kernels: one block computes one tile of one product.
//
//   A tile_m x depth, B depth x tile_n: a ring of stages in shared memory, [depth][tile + 4] each,
//   filled by cp.async `stages - 1` stages ahead. All of a short k is on its way before the first
//   product is computed: a small product waits for memory once.
//
//   A thread's rows are groups of up to 4, its columns too, groups one tile's share apart, so that
//   the loads of a warp are consecutive. Bit 0 of the lane chooses among columns and bit 1 among
//   rows: lanes 1 apart then load the same of A and lanes 2 apart the same of B, which is what lets
//   shared memory answer a 16-byte load of a warp in two turns instead of four.
//
//   With slices, each group of threads_m x threads_n threads takes a part of every stage: its slice
//   of k. The slices' sums meet in the ring when it has run dry and are added in order.

#ifndef GEMMD_KERNELS_FAMILIES_SMALL_TILE_CUH_
#define GEMMD_KERNELS_FAMILIES_SMALL_TILE_CUH_

#include <cuda_runtime.h>

#include "kernels/families/small_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// The thread index read anew: what a copy derives from it does not take up registers between
// stages.
__device__ __forceinline__ int SmallThreadAgain() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// One operand of one tile.
struct SmallSource {
  const float* from;     // element (outer 0, k 0); always a valid address
  int64_t outer_stride;  // 1 or depth_stride is 1
  int64_t depth_stride;
  int outer;  // rows or columns inside the matrix, at most the tile's
};

// Copies products [first, first + depth / slices) of each slice of one operand. A slice has
// slice_length products, but none is at or beyond k; what does not exist becomes 0.
template <int kOuter, int kDepth, int kSlices, int kThreads>
__device__ __forceinline__ void SmallCopy(const SmallSource& x, SmallLoad load, uint32_t to,
                                          int first, int k, int slice_length, int thread) {
  constexpr int kSliceDepth = kDepth / kSlices;
  constexpr int kPitchBytes = (kOuter + kSmallPadding) * 4;
  // The product that a row of the stage holds; negative: none.
  const auto product = [&](int row) {
    const int in_slice = first + row % kSliceDepth;
    const int l = in_slice + row / kSliceDepth * slice_length;
    return in_slice < slice_length && l < k ? l : -1;
  };
  if (load == SmallLoad::kDepth4) {
    // A warp takes 8 rows of the stage, which are consecutive in memory, of 4 outer at a time: the
    // padding puts these 32 floats into different banks.
    static_assert(kSliceDepth % 8 == 0 && kOuter % 4 == 0, "8 rows a warp, in one slice");
    constexpr int kWarps = kThreads / 32;
    constexpr int kWarpsAlongDepth = kWarps < kDepth / 8 ? kWarps : kDepth / 8;
    constexpr int kOuterStep = kWarps / kWarpsAlongDepth * 4;
    const int warp = thread / 32;
    const int outer0 = thread % 32 / 8 + warp / kWarpsAlongDepth * 4;
#pragma unroll
    for (int rows = 0; rows < kDepth; rows += kWarpsAlongDepth * 8) {
      const int row = rows + warp % kWarpsAlongDepth * 8 + thread % 8;
      const int l = product(row);
      const float* from = x.from + (l < 0 ? 0 : l + outer0 * x.outer_stride);
      const int64_t step = l < 0 ? 0 : kOuterStep * x.outer_stride;
      const int inside = l < 0 ? 0 : x.outer;
      const uint32_t row_to = to + row * kPitchBytes + outer0 * 4;
#pragma unroll 16
      for (int outer = 0; outer < kOuter; outer += kOuterStep) {
        const bool in = outer0 + outer < inside;
        CopyAsync4(row_to + outer * 4, in ? from : x.from, in ? 4 : 0);
        from += step;
      }
    }
    return;
  }
  const auto rows = [&](auto width, auto copy) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int kPieces = kOuter / kWidth;
    static_assert(kThreads % kPieces == 0, "whole rows");
    constexpr int kRows = kThreads / kPieces;
    const int column = thread % kPieces * kWidth;
    const int inside = 4 * min(kWidth, max(0, x.outer - column));
#pragma unroll
    for (int row0 = 0; row0 < kDepth; row0 += kRows) {
      const int row = row0 + thread / kPieces;
      if (kDepth % kRows != 0 && row >= kDepth) return;
      const int l = product(row);
      const bool in = l >= 0 && inside > 0;
      copy(to + row * kPitchBytes + column * 4, in ? x.from + l * x.depth_stride + column : x.from,
           static_cast<uint32_t>(in ? inside : 0));
    }
  };
  if (load == SmallLoad::kOuter16) {
    rows(std::integral_constant<int, 4>(),
         [](uint32_t at, const float* from, uint32_t bytes) { CopyAsync16(at, from, bytes); });
  } else {
    rows(std::integral_constant<int, 1>(),
         [](uint32_t at, const float* from, uint32_t bytes) { CopyAsync4(at, from, bytes); });
  }
}

// kWidth neighbouring results, of which `inside` are in the matrix.
template <int kWidth>
__device__ __forceinline__ void SmallStore(const SmallProblem& g, int64_t batch, int64_t row,
                                           int64_t column, const float (&sum)[kWidth]) {
  const StridedGemm<float>& p = g.p;
  if (row >= p.m || column >= p.n) return;
  if (!g.store_16 || column + kWidth > p.n) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (column + e < p.n) StoreElement(p, batch, row, column + e, sum[e]);
    }
    return;
  }
  float result[kWidth];
  float* to = p.d + batch * p.d_batch + row * p.d_row + column;
  using Vector = std::conditional_t<kWidth == 4, float4, float2>;
  static_assert(sizeof(Vector) == sizeof(result), "2 or 4 results");
  if (p.beta == 0) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) result[e] = Multiply(p.alpha, sum[e]);
  } else {
    float c[kWidth];
    *reinterpret_cast<Vector*>(c) =
        *reinterpret_cast<const Vector*>(p.c + batch * p.c_batch + row * p.c_row + column);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      result[e] = MultiplyAdd(p.alpha, sum[e], Multiply(p.beta, c[e]));
    }
  }
  *reinterpret_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(result);
}

// A shape's numbers as constants: device code cannot call SmallShape's functions.
template <SmallShape kShape>
struct SmallLayout {
  static constexpr int kTileM = kShape.tile_m();
  static constexpr int kTileN = kShape.tile_n();
  static constexpr int kThreads = kShape.threads();
  static constexpr int kSliceThreads = kShape.threads_m * kShape.threads_n;
  static constexpr int kPitchA = kTileM + kSmallPadding;
  static constexpr int kPitchB = kTileN + kSmallPadding;
  static constexpr int kStageFloats = kShape.stage_floats();
  static constexpr int kVectorM = kShape.rows < 4 ? kShape.rows : 4;
  static constexpr int kVectorN = kShape.columns < 4 ? kShape.columns : 4;
  // Of a warp: 16 lanes along n write 2 results each, 8 write 4, so that a row is 128 bytes.
  static constexpr int kLanesN = kVectorN == 2 ? 16 : 8;
  static constexpr int kLanesM = 32 / kLanesN;
  static_assert(kShape.threads_n % kLanesN == 0 && kShape.threads_m % kLanesM == 0, "whole warps");
};

template <int kWidth>
__device__ __forceinline__ void LoadFragment(const float* from, float* to) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
  } else {
    *reinterpret_cast<float2*>(to) = *reinterpret_cast<const float2*>(from);
  }
}

// Computes tile `index` of the problem. `shared` is kShape.shared_bytes() long.
template <SmallShape kShape>
__device__ __forceinline__ void SmallTile(const SmallProblem& g, int index, float* shared) {
  using Layout = SmallLayout<kShape>;
  constexpr int kStages = kShape.stages;
  constexpr int kSlices = kShape.slices;
  constexpr int kSliceDepth = kShape.depth / kSlices;
  constexpr int kPitchA = Layout::kPitchA;
  constexpr int kPitchB = Layout::kPitchB;
  constexpr int kVectorM = Layout::kVectorM;
  constexpr int kVectorN = Layout::kVectorN;
  constexpr int kGroupM = kVectorM * kShape.threads_m;
  constexpr int kGroupN = kVectorN * kShape.threads_n;
  constexpr int kWarpsN = kShape.threads_n / Layout::kLanesN;

  const int matrix_tiles = g.tiles_m * g.tiles_n;
  const int batch = index / matrix_tiles;
  index -= batch * matrix_tiles;
  const int tile_m = index / g.tiles_n;
  const int64_t row0 = int64_t{tile_m} * Layout::kTileM;
  const int64_t column0 = int64_t{index - tile_m * g.tiles_n} * Layout::kTileN;

  const int thread = static_cast<int>(threadIdx.x);
  const int k = static_cast<int>(g.p.k);
  const int slice_length = kSlices == 1 ? k : g.slice_length;
  const int stages = (min(k, slice_length) + kSliceDepth - 1) / kSliceDepth;
  const SmallSource a{g.p.a + batch * g.p.a_batch + row0 * g.p.a_row, g.p.a_row, g.p.a_column,
                      static_cast<int>(min(g.p.m - row0, int64_t{Layout::kTileM}))};
  const SmallSource b{g.p.b + batch * g.p.b_batch + column0 * g.p.b_column, g.p.b_column, g.p.b_row,
                      static_cast<int>(min(g.p.n - column0, int64_t{Layout::kTileN}))};
  const SmallLoad load_a = g.load_a;
  const SmallLoad load_b = g.load_b;
  const uint32_t ring = SharedAddress(shared);
  const auto fetch = [&](int stage) {
    if (stage < stages) {
      const int again = SmallThreadAgain();
      const uint32_t to = ring + stage % kStages * (Layout::kStageFloats * 4);
      SmallCopy<Layout::kTileM, kShape.depth, kSlices, Layout::kThreads>(
          a, load_a, to, stage * kSliceDepth, k, slice_length, again);
      SmallCopy<Layout::kTileN, kShape.depth, kSlices, Layout::kThreads>(
          b, load_b, to + kShape.depth * kPitchA * 4, stage * kSliceDepth, k, slice_length, again);
    }
    CommitCopies();
  };
#pragma unroll 1
  for (int stage = 0; stage < kStages - 1; ++stage) fetch(stage);

  const int slice = thread / Layout::kSliceThreads;
  const int warp = thread % Layout::kSliceThreads / 32;
  const int lane = thread % 32;
  const int lane_m = lane / 2 % Layout::kLanesM;
  const int lane_n = lane % 2 + lane / (2 * Layout::kLanesM) * 2;
  const int row = (warp / kWarpsN * Layout::kLanesM + lane_m) * kVectorM;
  const int column = (warp % kWarpsN * Layout::kLanesN + lane_n) * kVectorN;
  const int mine = max(0, min(k - slice * slice_length, slice_length));

  float sum[kShape.rows][kShape.columns];
#pragma unroll
  for (int i = 0; i < kShape.rows; ++i) {
#pragma unroll
    for (int j = 0; j < kShape.columns; ++j) sum[i][j] = 0;
  }
  const auto step = [&](const float* from_a, const float* from_b) {
    float x[kShape.rows];
    float y[kShape.columns];
#pragma unroll
    for (int q = 0; q < kShape.rows / kVectorM; ++q) {
      LoadFragment<kVectorM>(from_a + q * kGroupM, &x[q * kVectorM]);
    }
#pragma unroll
    for (int q = 0; q < kShape.columns / kVectorN; ++q) {
      LoadFragment<kVectorN>(from_b + q * kGroupN, &y[q * kVectorN]);
    }
    // Each multiply-add shares an operand with the one before, for the register reuse cache.
#pragma unroll
    for (int j = 0; j < kShape.columns; ++j) {
#pragma unroll
      for (int r = 0; r < kShape.rows; ++r) {
        const int i = j % 2 != 0 ? kShape.rows - 1 - r : r;
        sum[i][j] = MultiplyAdd(x[i], y[j], sum[i][j]);
      }
    }
  };
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    WaitForCopyGroups<kStages - 2>();
    __syncthreads();
    fetch(stage + kStages - 1);
    const float* from = shared + stage % kStages * Layout::kStageFloats;
    const float* from_a = from + slice * kSliceDepth * kPitchA + row;
    const float* from_b = from + kShape.depth * kPitchA + slice * kSliceDepth * kPitchB + column;
    const int left = mine - stage * kSliceDepth;
    if (left >= kSliceDepth) {
#pragma unroll
      for (int l = 0; l < kSliceDepth; ++l) step(from_a + l * kPitchA, from_b + l * kPitchB);
    } else {
      // Products that do not exist must not be added as 0 * 0: that would turn -0 into +0.
#pragma unroll 1
      for (int l = 0; l < left; ++l) step(from_a + l * kPitchA, from_b + l * kPitchB);
    }
  }

  if constexpr (kSlices == 1) {
#pragma unroll
    for (int i = 0; i < kShape.rows; ++i) {
#pragma unroll
      for (int q = 0; q < kShape.columns / kVectorN; ++q) {
        float result[kVectorN];
#pragma unroll
        for (int e = 0; e < kVectorN; ++e) result[e] = sum[i][q * kVectorN + e];
        SmallStore<kVectorN>(g, batch, row0 + i / kVectorM * kGroupM + row + i % kVectorM,
                             column0 + q * kGroupN + column, result);
      }
    }
  } else {
    constexpr int kSliceFloats = Layout::kTileM * kPitchB;
    static_assert(kSlices * kSliceFloats <= kStages * Layout::kStageFloats, "sums fit the ring");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kShape.rows; ++i) {
      const int at = i / kVectorM * kGroupM + row + i % kVectorM;
#pragma unroll
      for (int q = 0; q < kShape.columns / kVectorN; ++q) {
        *reinterpret_cast<float4*>(shared + slice * kSliceFloats + at * kPitchB + q * kGroupN +
                                   column) =
            make_float4(sum[i][4 * q], sum[i][4 * q + 1], sum[i][4 * q + 2], sum[i][4 * q + 3]);
      }
    }
    __syncthreads();
    constexpr int kPieces = Layout::kTileN / 4;
#pragma unroll
    for (int piece = 0; piece < Layout::kTileM * kPieces; piece += Layout::kThreads) {
      const int at = (piece + thread) / kPieces;
      const int from = at * kPitchB + (piece + thread) % kPieces * 4;
      float total[4];
      LoadFragment<4>(shared + from, total);
#pragma unroll
      for (int s = 1; s < kSlices; ++s) {
        float part[4];
        LoadFragment<4>(shared + s * kSliceFloats + from, part);
#pragma unroll
        for (int e = 0; e < 4; ++e) total[e] = __fadd_rn(total[e], part[e]);
      }
      SmallStore<4>(g, batch, row0 + at, column0 + (piece + thread) % kPieces * 4, total);
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SMALL_TILE_CUH_
