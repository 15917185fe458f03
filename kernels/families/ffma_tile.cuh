// A consumer thread's sums of a tile, kRows x kColumns: loading operands and multiplying.

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
  static constexpr bool kNarrows = kShape.narrows();
  static constexpr int kTileWarps = kShape.warps_m * kShape.warps_n;
  static constexpr int kConsumers = kShape.consumer_warps();
  static constexpr int kDepth = kKernel.depth();
  static constexpr int kSliceDepth = kDepth / kShape.slices;
  static constexpr int kSteps = kSliceDepth / kFfmaUnroll;  // bodies a stage
  static constexpr int kPitchA = kKernel.pitch_a() * 4;     // bytes
  static constexpr int kPitchB = kKernel.pitch_b() * 4;
  static constexpr int kBytesA = kKernel.bytes_a();
  static constexpr int kStageBytes = kKernel.stage_bytes();
  static constexpr int kStages = kKernel.stages();
  static constexpr int kRowGroup = 4 * kShape.lane_rows;
  static constexpr int kColumnGroup = 4 * kLaneColumns;
  static constexpr int kRingBytes = kKernel.ring_bytes();
  static constexpr int kSharedBytes = kKernel.shared_bytes();
  static constexpr bool kPacks = kKernel.packs();
  static constexpr int kPackerBytes = kKernel.packing_bytes() / kFfmaPackers;
  static constexpr int kStagingPitch = kKernel.staging_pitch() * 4;
  static constexpr int kStagingBytes = kKernel.staging_bytes();
  static constexpr bool kBoxA = kKernel.feed_a == FfmaFeed::kBoxes;
  static constexpr bool kBoxB = kKernel.feed_b == FfmaFeed::kBoxes;
  static constexpr int kBoxBytes =
      (kBoxA ? kBytesA : 0) + (kBoxB ? kStageBytes - kBytesA : 0);  // a stage

  static_assert(!kPacks || (kShape.slices == 1 && kDepth == kFfmaPackTile),
                "a stage is packed in one phase");
  static_assert(kConsumers % 4 == 0, "registers are handed over by warp groups");
  static_assert(kShape.slices == 1 || kShape.slices == 4,
                "a tile is summed at once or in quarters");
  static_assert(kStages <= 8 && kSliceDepth % kFfmaUnroll == 0, "");
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

// One k-step's operands of a thread, for its first kColumns columns.
template <FfmaKernel kKernel, int kColumns>
__device__ __forceinline__ void FfmaLoad(float (&a)[kKernel.shape.rows], float (&b)[kColumns],
                                         uint32_t from_a, uint32_t from_b) {
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
  for (int q = 0; q < kColumns / 4; ++q) {
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

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_TILE_CUH_
