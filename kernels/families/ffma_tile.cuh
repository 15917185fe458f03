// A consumer thread's sums of a tile, kRows x kColumns: loading operands, multiplying, storing.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_TILE_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_TILE_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// A kernel's numbers as constants: device code cannot call FfmaShape's functions.
template <FfmaKernel kKernel>
struct FfmaLayout {
  static constexpr FfmaShape kShape = kKernel.shape;
  static constexpr int kTileM = kShape.tile_m();
  static constexpr int kTileN = kShape.tile_n();
  static constexpr int kRows = kShape.rows;
  static constexpr int kColumns = kShape.columns;
  static constexpr int kLaneColumns = kShape.lane_columns();
  static constexpr int kTileWarps = kShape.warps_m * kShape.warps_n;
  static constexpr int kConsumers = kShape.consumer_warps();
  static constexpr int kSliceDepth = kShape.slice_depth();
  static constexpr int kSteps = kSliceDepth / kFfmaUnroll;  // bodies a stage
  static constexpr int kPitchA = kKernel.pitch_a() * 4;     // bytes
  static constexpr int kPitchB = kKernel.pitch_b() * 4;
  static constexpr int kBytesA = kKernel.bytes_a();
  static constexpr int kStageBytes = kKernel.stage_bytes();
  static constexpr int kRowGroup = 4 * kShape.lane_rows;
  static constexpr int kColumnGroup = 4 * kLaneColumns;
  static constexpr int kRingBytes = kKernel.ring_bytes();
  static constexpr int kStagingPitch = kKernel.staging_pitch() * 4;
  static constexpr int kStagingBytes = kKernel.staging_bytes();
  static constexpr bool kBoxA = kKernel.feed_a == FfmaFeed::kBoxes;
  static constexpr bool kBoxB = kKernel.feed_b == FfmaFeed::kBoxes;
  static constexpr int kBoxBytes =
      (kBoxA ? kBytesA : 0) + (kBoxB ? kStageBytes - kBytesA : 0);  // a stage

  static_assert(kConsumers % 4 == 0, "registers are handed over by warp groups");
  static_assert(kShape.slices == 1 || kShape.slices == 4,
                "a tile is summed at once or in quarters");
  static_assert(kShape.stages <= 8 && kSliceDepth % kFfmaUnroll == 0, "");
  static_assert(kBytesA % 128 == 0 && kStageBytes % 128 == 0, "boxes begin at multiples of 128");
};

// The thread index read anew: what is derived from it after the main loop does not take up
// registers in it.
__device__ __forceinline__ int ThreadIndexAgain() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// A consumer thread's slice of k, and its first row and column in the tile.
template <FfmaKernel kKernel>
struct FfmaPlace {
  int slice;
  int tile_warp;
  int lane;
  int row;
  int column;

  __device__ __forceinline__ explicit FfmaPlace(int thread) {
    using Layout = FfmaLayout<kKernel>;
    constexpr FfmaShape kShape = kKernel.shape;
    lane = thread % 32;
    slice = thread / 32 / Layout::kTileWarps;
    tile_warp = thread / 32 % Layout::kTileWarps;
    row = tile_warp % kShape.warps_m * kShape.rows * kShape.lane_rows +
          lane / Layout::kLaneColumns * 4;
    column = tile_warp / kShape.warps_m * kShape.columns * Layout::kLaneColumns +
             lane % Layout::kLaneColumns * 4;
  }
};

// One k-step's operands of a thread.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaLoad(float (&a)[kKernel.shape.rows],
                                         float (&b)[kKernel.shape.columns], uint32_t from_a,
                                         uint32_t from_b) {
  using Layout = FfmaLayout<kKernel>;
#pragma unroll
  for (int q = 0; q < Layout::kRows / 4; ++q) {
    const float4 v = LoadShared4(from_a + q * Layout::kRowGroup * 4);
    a[4 * q] = v.x;
    a[4 * q + 1] = v.y;
    a[4 * q + 2] = v.z;
    a[4 * q + 3] = v.w;
  }
#pragma unroll
  for (int q = 0; q < Layout::kColumns / 4; ++q) {
    const float4 v = LoadShared4(from_b + q * Layout::kColumnGroup * 4);
    b[4 * q] = v.x;
    b[4 * q + 1] = v.y;
    b[4 * q + 2] = v.z;
    b[4 * q + 3] = v.w;
  }
}

// One k-step of a thread. Columns outside, rows in a serpentine: each multiply-add shares an
// operand with the one before, which the register file's reuse cache holds. From the last column
// to the first: the other way round ptxas puts the loads of a k-step together, for 2 % (H200,
// 2026-11-30, 4096 cubed).
template <int kRows, int kColumns>
__device__ __forceinline__ void FfmaStep(float (&sum)[kRows][kColumns], const float (&a)[kRows],
                                         const float (&b)[kColumns]) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int j = kColumns - 1 - c;
      const int i = (c & 1) != 0 ? kRows - 1 - r : r;
      sum[i][j] = MultiplyAdd(a[i], b[j], sum[i][j]);
    }
  }
}

// Four results of a row, those inside D.
__device__ __forceinline__ void FfmaStoreFour(const StridedGemm<float>& p, bool store_16,
                                              int64_t batch, int64_t row, int64_t column,
                                              float4 sum) {
  if (row >= p.m || column >= p.n) return;
  if (store_16 && column + 4 <= p.n) {
    float4 result;
    if (p.beta == 0) {
      result = make_float4(Multiply(p.alpha, sum.x), Multiply(p.alpha, sum.y),
                           Multiply(p.alpha, sum.z), Multiply(p.alpha, sum.w));
    } else {
      const float4 c =
          *reinterpret_cast<const float4*>(p.c + batch * p.c_batch + row * p.c_row + column);
      result = make_float4(MultiplyAdd(p.alpha, sum.x, Multiply(p.beta, c.x)),
                           MultiplyAdd(p.alpha, sum.y, Multiply(p.beta, c.y)),
                           MultiplyAdd(p.alpha, sum.z, Multiply(p.beta, c.z)),
                           MultiplyAdd(p.alpha, sum.w, Multiply(p.beta, c.w)));
    }
    *reinterpret_cast<float4*>(p.d + batch * p.d_batch + row * p.d_row + column) = result;
    return;
  }
  StoreElement(p, batch, row, column, sum.x);
  if (column + 1 < p.n) StoreElement(p, batch, row, column + 1, sum.y);
  if (column + 2 < p.n) StoreElement(p, batch, row, column + 2, sum.z);
  if (column + 3 < p.n) StoreElement(p, batch, row, column + 3, sum.w);
}

// All sums of a thread times `factor` to 16-byte aligned rows.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreWhole(
    const float (&sum)[kKernel.shape.rows][kKernel.shape.columns], float factor, float* to,
    int64_t pitch) {
  using Layout = FfmaLayout<kKernel>;
#pragma unroll
  for (int i = 0; i < Layout::kRows; ++i) {
#pragma unroll
    for (int q = 0; q < Layout::kColumns / 4; ++q) {
      *reinterpret_cast<float4*>(to + q * Layout::kColumnGroup) =
          make_float4(Multiply(factor, sum[i][4 * q]), Multiply(factor, sum[i][4 * q + 1]),
                      Multiply(factor, sum[i][4 * q + 2]), Multiply(factor, sum[i][4 * q + 3]));
    }
    to += i % 4 != 3 ? pitch : (Layout::kRowGroup - 3) * pitch;
  }
}

// The results of a thread whose first is (row, column), in any case. Rows take turns in the place
// of the first: unrolled, this would be 90 KB of code that every tile fetches anew.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreInside(
    const FfmaGemm& g, int64_t batch, int64_t row, int64_t column,
    float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
#pragma unroll 1
  for (int i = 0; i < Layout::kRows; ++i) {
#pragma unroll
    for (int q = 0; q < Layout::kColumns / 4; ++q) {
      FfmaStoreFour(
          g.p, g.store_16, batch, row, column + q * Layout::kColumnGroup,
          make_float4(sum[0][4 * q], sum[0][4 * q + 1], sum[0][4 * q + 2], sum[0][4 * q + 3]));
    }
    row += i % 4 != 3 ? 1 : Layout::kRowGroup - 3;
#pragma unroll
    for (int r = 0; r + 1 < Layout::kRows; ++r) {
#pragma unroll
      for (int j = 0; j < Layout::kColumns; ++j) sum[r][j] = sum[r + 1][j];
    }
  }
}

// The same through the warp's own `staging` in shared memory: a row of the warp's results at a
// time, 32 neighbours a store. As threads hold them, they would go into 16 pieces of lines at a
// time, which took as long as 110 products of a tile's sum (H200, 2026-11-30). (row, column) is the
// warp's first.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreStaged(
    const FfmaGemm& g, int64_t batch, int64_t row, int64_t column, int lane, uint32_t staging,
    float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
  constexpr int kLaneRows = kKernel.shape.lane_rows;
  constexpr int kWidth = Layout::kColumns * Layout::kLaneColumns;
  static_assert(kWidth % 32 == 0, "whole stores");
  const uint32_t mine = staging + lane / Layout::kLaneColumns * Layout::kStagingPitch +
                        lane % Layout::kLaneColumns * 16;
  const StridedGemm<float>& p = g.p;
#pragma unroll 1
  for (int i = 0; i < Layout::kRows; ++i) {
#pragma unroll
    for (int q = 0; q < Layout::kColumns / 4; ++q) {
      // Multiplied by 1, so that a store does not tie sums together: see ffma_multiply.cuh.
      StoreShared4(
          mine + q * Layout::kColumnGroup * 4,
          make_float4(Multiply(g.one, sum[0][4 * q]), Multiply(g.one, sum[0][4 * q + 1]),
                      Multiply(g.one, sum[0][4 * q + 2]), Multiply(g.one, sum[0][4 * q + 3])));
    }
    __syncwarp();
#pragma unroll 2
    for (int r = 0; r < kLaneRows; ++r) {
      const int64_t at = row + 4 * r;
      if (at >= p.m) break;
#pragma unroll
      for (int h = 0; h < kWidth; h += 32) {
        if (column + h + lane >= p.n) continue;
        StoreElement(p, batch, at, column + h + lane,
                     LoadShared(staging + r * Layout::kStagingPitch + (h + lane) * 4));
      }
    }
    __syncwarp();
    row += i % 4 != 3 ? 1 : Layout::kRowGroup - 3;
#pragma unroll
    for (int r = 0; r + 1 < Layout::kRows; ++r) {
#pragma unroll
      for (int j = 0; j < Layout::kColumns; ++j) sum[r][j] = sum[r + 1][j];
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_TILE_CUH_
