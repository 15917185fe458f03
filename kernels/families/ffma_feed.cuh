// How a stage of an operand comes into shared memory.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_FEED_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_FEED_CUH_

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/families/ffma_gemm.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cp_async.cuh"

namespace gemm {

// Two additions. Left to itself the compiler multiplies for every copy, in the unit that the
// consumers' multiply-adds need.
__device__ __forceinline__ void FfmaAdvance(const float** from, int64_t bytes) {
  asm volatile("add.s64 %0, %0, %1;" : "+l"(*from) : "l"(bytes));
}

// Transposes tiles of an operand with k contiguous on their way to [depth][kOuter + 4]. A warp
// copies 8 rows of a stage, which are consecutive in memory, of 4 outer indices at a time, and the
// next 8, of the same slice or of the next, from addresses that are the same but for a constant: an
// address takes two additions.
template <int kOuter, int kDepth, int kSlices>
class FfmaTransposer {
 public:
  // `tile` is element (outer 0, k 0) of the piece, which has `length` products and `outer` rows or
  // columns that exist.
  __device__ __forceinline__ FfmaTransposer(const float* tile, int64_t outer_stride, int64_t outer,
                                            int length, int slice_length, int thread)
      : step_bytes_(kStep * outer_stride * static_cast<int>(sizeof(float))),
        whole_(outer >= kOuter) {
    const int row = thread / 32 % kGroups * 16 + thread % 8;
    const int outer0 = thread / 32 / kGroups * 4 + thread % 32 / 8;
    const int slice = row / kSliceDepth;
    const int product = slice * slice_length + row % kSliceDepth;
    // Rows or columns that do not exist are not copied: results of what was there are not stored.
    copies_left_ = static_cast<int>(min(outer, int64_t{kOuter})) - outer0;
    products_left_ = min((slice + 1) * slice_length, length) - product;
    apart_ = kOneSlice ? 8 : slice_length;
    products_left_after_ = kOneSlice
                               ? products_left_ - 8
                               : min((slice + 2) * slice_length, length) - product - slice_length;
    from_ = tile + (copies_left_ > 0 ? outer0 * outer_stride : 0) + product;
    to_ = (row * (kOuter + 4) + outer0) * 4;
  }

  // Copies the next stage: in each slice, the next kSliceDepth products of the slice's.
  __device__ __forceinline__ void Copy(uint32_t stage) {
    const uint32_t bytes = products_left_ > 0 ? 4 : 0;
    const uint32_t bytes_after = products_left_after_ > 0 ? 4 : 0;
    const int apart = kOneSlice ? 8 : apart_;
    const float* from = from_;
    const uint32_t to = stage + to_;
    if (whole_) {
#pragma unroll
      for (int g = 0; g < kOuter / kStep; ++g) {
        CopyAsync4(to + g * (kStep * 4), from, bytes);
        CopyAsync4(to + g * (kStep * 4) + kAfter, from + apart, bytes_after);
        FfmaAdvance(&from, step_bytes_);
      }
    } else {
#pragma unroll
      for (int g = 0; g < kOuter / kStep; ++g) {
        if (kStep * g < copies_left_) {
          CopyAsync4(to + g * (kStep * 4), from, bytes);
          CopyAsync4(to + g * (kStep * 4) + kAfter, from + apart, bytes_after);
        }
        FfmaAdvance(&from, step_bytes_);
      }
    }
    from_ += kSliceDepth;
    products_left_ -= kSliceDepth;
    products_left_after_ -= kSliceDepth;
  }

 private:
  static constexpr int kSliceDepth = kDepth / kSlices;
  static constexpr bool kOneSlice = kSliceDepth % 16 == 0;  // has all rows of a warp
  static constexpr int kWarps = kFfmaProducers / 32;
  static constexpr int kGroups = kDepth / 16;               // of rows, each a warp's
  static constexpr int kStep = 4 * (kWarps / kGroups);      // outer indices at a time
  static constexpr uint32_t kAfter = 8 * (kOuter + 4) * 4;  // bytes, 8 rows on
  static_assert(kWarps % kGroups == 0 && kOuter % kStep == 0, "16 rows a warp");
  static_assert(kOneSlice || kSliceDepth == 8, "in one slice, or in two");

  const float* from_;
  int64_t step_bytes_;
  uint32_t to_;
  int copies_left_;
  int products_left_;
  int products_left_after_;  // of the row 8 further on
  int apart_;                // products between the two
  bool whole_;               // of all threads: lanes that go separate ways would take turns
};

// Copies tiles of an operand with its outer index contiguous to [depth][kOuter], as a transposer
// does: a thread several columns of a row, from addresses that are the same but for a constant.
// Slices have as many warps each.
template <int kOuter, int kDepth, int kSlices>
class FfmaCopier {
 public:
  // As a transposer's, but for the stride from product to product.
  __device__ __forceinline__ FfmaCopier(const float* tile, int64_t depth_stride, int64_t outer,
                                        int length, int slice_length, int thread)
      : step_bytes_(kRows * depth_stride * static_cast<int>(sizeof(float))),
        whole_(outer >= kOuter) {
    const int slice = thread / kThreads;
    const int row = thread % kThreads / kLanes;
    const int column = thread % kLanes;
    const int product = slice * slice_length + row;
    // Columns that do not exist are not copied: their results are not stored. To repeat another one
    // would cost: lanes that copy the same element take turns.
    columns_left_ = static_cast<int>(min(outer, int64_t{kOuter})) - column;
    products_left_ = min((slice + 1) * slice_length, length) - product;
    from_ = tile + (columns_left_ > 0 ? column : 0) + product * depth_stride;
    to_ = ((slice * kSliceDepth + row) * kOuter + column) * 4;
  }

  __device__ __forceinline__ void Copy(uint32_t stage) {
    const uint32_t to = stage + to_;
    if (whole_ && products_left_ > kSliceDepth - kRows) {
#pragma unroll
      for (int row = 0; row < kSliceDepth; row += kRows) {
#pragma unroll
        for (int column = 0; column < kOuter; column += kLanes) {
          CopyAsync4(to + (row * kOuter + column) * 4, from_ + column, 4);
        }
        FfmaAdvance(&from_, step_bytes_);
      }
    } else {
#pragma unroll
      for (int row = 0; row < kSliceDepth; row += kRows) {
        // Products that do not exist are not looked at.
        const int columns = row < products_left_ ? columns_left_ : 0;
#pragma unroll
        for (int column = 0; column < kOuter; column += kLanes) {
          if (column < columns) CopyAsync4(to + (row * kOuter + column) * 4, from_ + column, 4);
        }
        FfmaAdvance(&from_, step_bytes_);
      }
    }
    products_left_ -= kSliceDepth;
  }

 private:
  static constexpr int kSliceDepth = kDepth / kSlices;
  static constexpr int kThreads = kFfmaProducers / kSlices;  // of a slice
  static constexpr int kLanes = kOuter % 32 == 0 ? 32 : 16;  // of a row
  static constexpr int kRows = kThreads / kLanes;            // at a time
  static_assert(kOuter % kLanes == 0 && kThreads % kLanes == 0 && kSliceDepth % kRows == 0,
                "whole rows");

  const float* from_;
  int64_t step_bytes_;
  uint32_t to_;
  int columns_left_;
  int products_left_;
  bool whole_;
};

// What brings an operand that is not fed by boxes.
template <FfmaFeed kFeed, int kOuter, int kDepth, int kSlices>
using FfmaThreadFeed =
    std::conditional_t<kFeed == FfmaFeed::kCopying, FfmaCopier<kOuter, kDepth, kSlices>,
                       FfmaTransposer<kOuter, kDepth, kSlices>>;

// Copies a stage of an operand by boxes, one a slice; one thread calls it.
template <int kSlices, int kSliceDepth, int kPitchBytes>
__device__ __forceinline__ void FfmaCopyBoxes(uint32_t to, const CUtensorMap* map, int outer,
                                              int product, int slice_length, int matrix,
                                              uint32_t barrier) {
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    CopyBox(to + slice * kSliceDepth * kPitchBytes, map, outer, product + slice * slice_length,
            matrix, barrier);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_FEED_CUH_
