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

#include "kernels/families/small_feed.cuh"
#include "kernels/families/small_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// kWidth neighbouring results, of which some may be outside. `vectors`: rows of D, and of C where
// it is read, are 16-byte aligned.
template <int kWidth>
__device__ __forceinline__ void SmallStore(const StridedGemm<float>& p, bool vectors, int64_t batch,
                                           int64_t row, int64_t column,
                                           const float (&sum)[kWidth]) {
  if (row >= p.m || column >= p.n) return;
  if (!vectors || column + kWidth > p.n) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (column + e < p.n) StoreElement(p, batch, row, column + e, sum[e]);
    }
    return;
  }
  using Vector = std::conditional_t<kWidth == 4, float4, float2>;
  float result[kWidth];
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
  *reinterpret_cast<Vector*>(p.d + batch * p.d_batch + row * p.d_row + column) =
      *reinterpret_cast<const Vector*>(result);
}

// A shape's numbers as constants: device code cannot call SmallShape's functions.
template <SmallShape kShape>
struct SmallLayout {
  static constexpr int kTileM = kShape.tile_m();
  static constexpr int kTileN = kShape.tile_n();
  static constexpr int kThreads = kShape.threads();
  static constexpr int kConsumers = kShape.consumers();
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

// __syncthreads, but from two places of the program at once.
__device__ __forceinline__ void BlockBarrier() { asm volatile("bar.sync 0;" ::: "memory"); }

// Of the threads that do not only copy.
template <int kConsumers>
__device__ __forceinline__ void ConsumerBarrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

template <int kWidth>
__device__ __forceinline__ void LoadFragment(const float* from, float* to) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
  } else {
    *reinterpret_cast<float2*>(to) = *reinterpret_cast<const float2*>(from);
  }
}

template <int kWidth>
__device__ __forceinline__ void StoreFragment(const float* from, float* to) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else {
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
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
  const int batch = index < matrix_tiles ? 0 : index / matrix_tiles;
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
  // A product that does not exist is 0 * -0, which changes no sum: added as 0 * 0 it would turn a
  // sum of -0 into +0.
  constexpr int kFeeders = kShape.producers > 0 ? kShape.producers : Layout::kThreads;
  constexpr bool kReread = kShape.producers == 0 && kShape.rows * kShape.columns >= 32;
  const int feeder = thread - (Layout::kThreads - kFeeders);
  const SmallLoad load_a = g.load_a;
  const SmallLoad load_b = g.load_b;
  const uint32_t ring = SharedAddress(shared);
  const auto fetch = [&](int stage, int slot) {
    if (stage < stages) {
      const uint32_t to = ring + slot * (Layout::kStageFloats * 4);
      const int copier = kReread ? SmallThreadAgain() : feeder;
      const SmallFeed<Layout::kTileM, kShape.depth, kSlices, kFeeders> feed_a(
          a, load_a, k, slice_length, 0, copier);
      const SmallFeed<Layout::kTileN, kShape.depth, kSlices, kFeeders> feed_b(
          b, load_b, k, slice_length, -0.0F, copier);
      feed_a.Copy(to, stage * kSliceDepth);
      feed_b.Copy(to + kShape.depth * kPitchA * 4, stage * kSliceDepth);
    }
    CommitCopies();
  };
  if (feeder >= 0) {
#pragma unroll 1
    for (int stage = 0; stage < kStages - 1; ++stage) fetch(stage, stage);
  }
  if constexpr (kShape.producers > 0) {
    if (feeder >= 0) {
      int slot = kStages - 1;
#pragma unroll 1
      for (int stage = 0; stage < stages; ++stage) {
        WaitForCopyGroups<kStages - 2>();
        BlockBarrier();
        fetch(stage + kStages - 1, slot);
        slot = slot + 1 == kStages ? 0 : slot + 1;
      }
      return;
    }
  }

  const int slice = thread / Layout::kSliceThreads;
  const int warp = thread % Layout::kSliceThreads / 32;
  const int lane = thread % 32;
  const int lane_m = lane / 2 % Layout::kLanesM;
  const int lane_n = lane % 2 + lane / (2 * Layout::kLanesM) * 2;
  const int row = (warp / kWarpsN * Layout::kLanesM + lane_m) * kVectorM;
  const int column = (warp % kWarpsN * Layout::kLanesN + lane_n) * kVectorN;

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
  int slot = 0;
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    if constexpr (kShape.producers == 0) {
      WaitForCopyGroups<kStages - 2>();
      __syncthreads();
      fetch(stage + kStages - 1, slot == 0 ? kStages - 1 : slot - 1);
    } else {
      BlockBarrier();
    }
    const float* from_a =
        shared + slot * Layout::kStageFloats + slice * kSliceDepth * kPitchA + row;
    const float* from_b = shared + slot * Layout::kStageFloats + kShape.depth * kPitchA +
                          slice * kSliceDepth * kPitchB + column;
    slot = slot + 1 == kStages ? 0 : slot + 1;
#pragma unroll
    for (int l = 0; l < kSliceDepth; ++l) step(from_a + l * kPitchA, from_b + l * kPitchB);
  }

  // A copy: the compiler need not fear that a store to D changes it.
  const StridedGemm<float> p = g.p;
  const bool vectors = g.store_16;
  constexpr int kSliceFloats = Layout::kTileM * kPitchB;
  static_assert(kSlices * kSliceFloats <= kStages * Layout::kStageFloats, "sums fit the ring");
  if (kSlices == 1 && vectors) {
#pragma unroll
    for (int i = 0; i < kShape.rows; ++i) {
#pragma unroll
      for (int q = 0; q < kShape.columns / kVectorN; ++q) {
        float result[kVectorN];
#pragma unroll
        for (int e = 0; e < kVectorN; ++e) result[e] = sum[i][q * kVectorN + e];
        SmallStore<kVectorN>(p, vectors, batch, row0 + i / kVectorM * kGroupM + row + i % kVectorM,
                             column0 + q * kGroupN + column, result);
      }
    }
  } else {
    // Slices meet in the ring; and rows of D that are not aligned are stored from there, since a
    // thread's own would go 4 bytes at a time into as many pieces of the cache's lines.
    ConsumerBarrier<Layout::kConsumers>();
#pragma unroll
    for (int i = 0; i < kShape.rows; ++i) {
      const int at = i / kVectorM * kGroupM + row + i % kVectorM;
#pragma unroll
      for (int q = 0; q < kShape.columns / kVectorN; ++q) {
        StoreFragment<kVectorN>(&sum[i][q * kVectorN], shared + slice * kSliceFloats +
                                                           at * kPitchB + q * kGroupN + column);
      }
    }
    ConsumerBarrier<Layout::kConsumers>();
    if (!vectors) {
#pragma unroll 4
      for (int piece = thread; piece < Layout::kTileM * Layout::kTileN;
           piece += Layout::kConsumers) {
        const int at = piece / Layout::kTileN;
        const int from = piece % Layout::kTileN;
        if (row0 + at >= p.m || column0 + from >= p.n) continue;
        float total = shared[at * kPitchB + from];
#pragma unroll
        for (int s = 1; s < kSlices; ++s) {
          total = __fadd_rn(total, shared[s * kSliceFloats + at * kPitchB + from]);
        }
        StoreElement(p, batch, row0 + at, column0 + from, total);
      }
      return;
    }
    constexpr int kPieces = Layout::kTileN / 4;
#pragma unroll
    for (int piece = 0; piece < Layout::kTileM * kPieces; piece += Layout::kConsumers) {
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
      SmallStore<4>(p, vectors, batch, row0 + at, column0 + (piece + thread) % kPieces * 4, total);
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SMALL_TILE_CUH_
