// How the small family's kernels bring tiles of A and B into shared memory: [depth][tile + 4] each,
// whatever their layout in memory, by cp.async.

#ifndef GEMMD_KERNELS_FAMILIES_SMALL_FEED_CUH_
#define GEMMD_KERNELS_FAMILIES_SMALL_FEED_CUH_

#include <cuda_runtime.h>

#include "kernels/families/small_gemm.h"
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

// Brings one operand, a stage at a time, by kThreads threads. A slice has slice_length products,
// but none is at or beyond k. For what does not exist the stage holds `fill`; for rows or columns
// outside the matrix it holds anything.
template <int kOuter, int kDepth, int kSlices, int kThreads>
class SmallFeed {
 public:
  __device__ __forceinline__ SmallFeed(const SmallSource& x, SmallLoad load, int k,
                                       int slice_length, float fill, int thread)
      : x_(x), load_(load), k_(k), slice_length_(slice_length), fill_(fill), thread_(thread) {}

  // Products [first, first + depth / slices) of each slice.
  __device__ __forceinline__ void Copy(uint32_t to, int first) const {
    const bool whole = first + kSliceDepth <= slice_length_ &&
                       first + kSliceDepth + (kSlices - 1) * slice_length_ <= k_;
    if (whole) {
      CopyStage<true>(to, first);
    } else {
      CopyStage<false>(to, first);
    }
  }

 private:
  static constexpr int kSliceDepth = kDepth / kSlices;
  static constexpr int kPitchBytes = (kOuter + kSmallPadding) * 4;

  // kWhole: every product exists.
  template <bool kWhole>
  __device__ __forceinline__ void CopyStage(uint32_t to, int first) const {
    if (load_ == SmallLoad::kOuter16) {
      CopyRows<4, kWhole>(to, first);
    } else if (load_ == SmallLoad::kOuter4) {
      CopyRows<1, kWhole>(to, first);
    } else {
      CopyColumns<kWhole>(to, first);
    }
  }

  // The product that a row of the stage holds.
  __device__ __forceinline__ int Product(int row, int first) const {
    return first + row % kSliceDepth + row / kSliceDepth * slice_length_;
  }
  __device__ __forceinline__ bool Exists(int row, int first) const {
    if constexpr (kSlices == 1) return row < k_ - first;
    return first + row % kSliceDepth < slice_length_ && Product(row, first) < k_;
  }

  // Outer index contiguous: threads along it, then along the rows, kRows of them a pass.
  template <int kWidth, bool kWhole>
  __device__ __forceinline__ void CopyRows(uint32_t to, int first) const {
    constexpr int kPieces = kOuter / kWidth;
    constexpr int kRows = kThreads / kPieces;
    static_assert(kThreads % kPieces == 0 && kDepth % kRows == 0, "whole passes");
    constexpr int kPassesASlice = kRows < kSliceDepth ? kSliceDepth / kRows : 1;
    constexpr int kSlicesAPass = kRows < kSliceDepth ? 1 : kRows / kSliceDepth;
    const int row0 = thread_ / kPieces;
    const int column = thread_ % kPieces * kWidth;
    const int inside = min(kWidth, x_.outer - column);
    if (inside <= 0) return;
    const int64_t step = kRows * x_.depth_stride;
    const int64_t jump =
        (kSlicesAPass * slice_length_ - (kPassesASlice - 1) * kRows) * x_.depth_stride;
    const float* from = x_.from + Product(row0, first) * x_.depth_stride + column;
    to += row0 * kPitchBytes + column * 4;
#pragma unroll(kWhole ? kDepth / kRows : 2)
    for (int row = 0; row < kDepth; row += kRows) {
      if (!kWhole && !Exists(row0 + row, first)) {
        Fill<kWidth>(to + row * kPitchBytes);
      } else if constexpr (kWidth == 4) {
        CopyAsync16(to + row * kPitchBytes, from, static_cast<uint32_t>(4 * inside));
      } else {
        CopyAsync4(to + row * kPitchBytes, from, 4);
      }
      from += kSlices > 1 && (row / kRows + 1) % kPassesASlice == 0 ? jump : step;
    }
  }

  // k contiguous: a warp takes 8 rows of the stage, which are consecutive in memory, of 4 outer at
  // a time: the padding puts these 32 floats into different banks.
  template <bool kWhole>
  __device__ __forceinline__ void CopyColumns(uint32_t to, int first) const {
    static_assert(kSliceDepth % 8 == 0 && kOuter % 4 == 0, "8 rows a warp, in one slice");
    constexpr int kWarps = kThreads / 32;
    constexpr int kWarpsAlongDepth = kWarps < kDepth / 8 ? kWarps : kDepth / 8;
    constexpr int kOuterStep = kWarps / kWarpsAlongDepth * 4;
    const int warp = thread_ / 32;
    const int row0 = warp % kWarpsAlongDepth * 8 + thread_ % 8;
    const int outer0 = thread_ % 32 / 8 + warp / kWarpsAlongDepth * 4;
    to += row0 * kPitchBytes + outer0 * 4;
    const int64_t step = kOuterStep * x_.outer_stride;
#pragma unroll
    for (int rows = 0; rows < kDepth; rows += kWarpsAlongDepth * 8) {
      if (!kWhole && !Exists(row0 + rows, first)) {
#pragma unroll
        for (int outer = 0; outer < kOuter; outer += kOuterStep) {
          Fill<1>(to + rows * kPitchBytes + outer * 4);
        }
        continue;
      }
      const float* from = x_.from + Product(row0 + rows, first) + outer0 * x_.outer_stride;
#pragma unroll
      for (int outer = 0; outer < kOuter; outer += kOuterStep) {
        if (outer0 + outer < x_.outer) CopyAsync4(to + rows * kPitchBytes + outer * 4, from, 4);
        from += step;
      }
    }
  }

  template <int kWidth>
  __device__ __forceinline__ void Fill(uint32_t at) const {
    if constexpr (kWidth == 4) {
      StoreShared4(at, make_float4(fill_, fill_, fill_, fill_));
    } else {
      StoreShared(at, fill_);
    }
  }

  const SmallSource x_;
  const SmallLoad load_;
  const int k_;
  const int slice_length_;
  const float fill_;
  const int thread_;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SMALL_FEED_CUH_
