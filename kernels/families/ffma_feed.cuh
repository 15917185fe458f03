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
// copies 8 rows of a stage, which are consecutive in memory, of 4 outer indices at a time.
template <int kOuter, int kDepth, int kSlices>
class FfmaTransposer {
 public:
  // `tile` is element (outer 0, k 0) of the piece, which has `length` products and `outer` rows or
  // columns that exist.
  __device__ __forceinline__ FfmaTransposer(const float* tile, int64_t outer_stride, int64_t outer,
                                            int length, int slice_length, int thread)
      : step_bytes_(4 * outer_stride * static_cast<int>(sizeof(float))) {
    const int row = thread / 32 * 8 + thread % 8;
    const int outer0 = thread % 32 / 8;
    copies_left_ = static_cast<int>(min(outer, int64_t{kOuter})) - outer0;
    // Rows or columns that do not exist are not copied: results of what was there are not stored.
    from_ = tile + (copies_left_ > 0 ? outer0 * outer_stride : 0);
    to_ = (row * (kOuter + 4) + outer0) * 4;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int slice = (row + pass * 32) / kSliceDepth;
      const int in_slice = (row + pass * 32) % kSliceDepth;
      product_[pass] = slice * slice_length + in_slice;
      end_[pass] = min(slice_length, length - slice * slice_length) - in_slice;
    }
  }

  // Copies a stage: in each slice, products [first, first + kSliceDepth) of the slice's.
  __device__ __forceinline__ void Copy(uint32_t stage, int first) const {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const bool exists = first < end_[pass];
      const uint32_t bytes = exists ? 4 : 0;
      const float* from = from_ + (exists ? product_[pass] + first : 0);
      const uint32_t to = stage + to_ + pass * (32 * (kOuter + 4) * 4);
      if (copies_left_ > kOuter - 4) {
#pragma unroll
        for (int g = 0; g < kOuter / 4; ++g) {
          CopyAsync4(to + g * 16, from, bytes);
          FfmaAdvance(&from, step_bytes_);
        }
      } else {
#pragma unroll
        for (int g = 0; g < kOuter / 4; ++g) {
          if (4 * g < copies_left_) CopyAsync4(to + g * 16, from, bytes);
          FfmaAdvance(&from, step_bytes_);
        }
      }
    }
  }

 private:
  static constexpr int kPasses = kDepth / 32;
  static constexpr int kSliceDepth = kDepth / kSlices;
  static_assert(kDepth % 32 == 0 && kSliceDepth % 8 == 0, "8 rows a warp, in one slice");

  const float* from_;
  int64_t step_bytes_;
  int copies_left_;
  uint32_t to_;
  int product_[kPasses];
  int end_[kPasses];
};

// Copies tiles of an operand with its outer index contiguous to [depth][kOuter], as a transposer
// does. A pass copies as many rows as the threads have places for; the rest of them have none.
template <int kOuter, int kDepth, int kSlices>
class FfmaCopier {
 public:
  // As a transposer's, but for the stride from product to product.
  __device__ __forceinline__ FfmaCopier(const float* tile, int64_t depth_stride, int64_t outer,
                                        int length, int slice_length, int thread)
      : stride_(depth_stride),
        step_bytes_(kRows * depth_stride * static_cast<int>(sizeof(float))),
        length_(length),
        slice_length_(slice_length) {
    row_ = thread / kOuter;
    const int column = thread % kOuter;
    // One that does not exist is not copied: its results are not stored. To repeat another one
    // would cost: lanes that copy the same element take turns.
    copies_ = column < outer && row_ < kRows;
    from_ = tile + column;
    to_ = thread * 4;
  }

  __device__ __forceinline__ void Copy(uint32_t stage, int first) const {
    if (!copies_) return;
#pragma unroll 1
    for (int slice = 0; slice < kSlices; ++slice) {
      const int before = slice * slice_length_;
      const int rows = min(slice_length_, length_ - before) - first;  // that exist
      const float* from = from_ + (rows > 0 ? before + row_ + first : 0) * stride_;
      const uint32_t to = stage + to_ + slice * (kSliceDepth * kOuter * 4);
      if (rows >= kSliceDepth) {
#pragma unroll
        for (int pass = 0; pass < kSliceDepth / kRows; ++pass) {
          CopyAsync4(to + pass * (kRows * kOuter * 4), from, 4);
          FfmaAdvance(&from, step_bytes_);
        }
      } else {
        // Products that do not exist are not looked at.
#pragma unroll(kSlices == 1 ? 4 : 1)
        for (int pass = 0; pass < kSliceDepth / kRows; ++pass) {
          if (row_ + pass * kRows >= rows) break;
          CopyAsync4(to + pass * (kRows * kOuter * 4), from, 4);
          FfmaAdvance(&from, step_bytes_);
        }
      }
    }
  }

 private:
  static constexpr int kSliceDepth = kDepth / kSlices;
  static constexpr int kRows = kFfmaProducers / kOuter;  // a pass
  static_assert(kSliceDepth % kRows == 0, "whole passes");

  const float* from_;
  int64_t stride_;
  int64_t step_bytes_;
  uint32_t to_;
  int row_;
  bool copies_;
  int length_;
  int slice_length_;
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
