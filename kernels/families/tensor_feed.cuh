// How operands of f64 come into shared memory and out of it again: what producers copy and where a
// warp's lanes find it. tensor.cu has the picture.

#ifndef GEMMD_KERNELS_FAMILIES_TENSOR_FEED_CUH_
#define GEMMD_KERNELS_FAMILIES_TENSOR_FEED_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/tensor_gemm.h"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// Byte offset of an element in its line, by line and position there.
__device__ inline int TensorPlace(int line, int position) {
  return line * kTensorLineBytes + ((position / 2) ^ (2 * (line % 4))) * 16 + position % 2 * 8;
}

// How one operand comes into the ring: what each producer copies. A copy has as many threads across
// a line, or a row of all panels, as it takes; the others of a producer's copies are `step_` apart.
template <int kOuter>
class TensorFeed {
 public:
  // `outer_step` from one row of A, or column of B, to the next, `k_step` from one product to the
  // next: one of them is 1. `fill` is what lies beyond the end of k.
  __device__ TensorFeed(const double* base, int64_t outer_step, int64_t k_step, int64_t batch_step,
                        double fill)
      : base_(base), fill_(fill), along_k_(AlongK(outer_step, k_step)) {
    ld_ = along_k_ ? outer_step : k_step;
    by_16_ = (reinterpret_cast<uint64_t>(base) | static_cast<uint64_t>(ld_ * 8) |
              static_cast<uint64_t>(batch_step * 8)) %
                 16 ==
             0;
    const int elements = by_16_ ? 2 : 1;
    const int thread = static_cast<int>(threadIdx.x) % kTensorProducers;
    const int across = (along_k_ ? kTensorSlab : kOuter) / elements;
    line_ = thread / across;
    at_ = thread % across * elements;
    place_ = along_k_ ? TensorPlace(line_, at_)
                      : at_ / 16 * kTensorPanelBytes + TensorPlace(line_, at_ % 16);
    step_ = kTensorProducers / across * ld_;
  }

  __device__ static bool AlongK(int64_t outer_step, int64_t k_step) {
    return k_step == 1 && outer_step != 1;
  }

  __device__ void Begin(int64_t batch_offset, int64_t outer, int outer_left, int64_t k) {
    from_ =
        base_ + batch_offset + (along_k_ ? outer * ld_ + k : k * ld_ + outer) + line_ * ld_ + at_;
    outer_left_ = outer_left;
  }

  // Copies the next slab, of which k_left products exist.
  __device__ __forceinline__ void Copy(uint32_t to, int64_t k_left) {
    const int depth = static_cast<int>(min(k_left, int64_t{kTensorSlab}));
    if (along_k_) {
      if (by_16_) {
        CopyBy<2, kTensorSlab / 2>(to + place_, outer_left_, depth, depth);
      } else {
        CopyBy<1, kTensorSlab>(to + place_, outer_left_, depth, depth);
      }
      from_ += kTensorSlab;
    } else {
      if (by_16_) {
        CopyBy<2, kOuter / 2>(to + place_, depth, outer_left_, depth);
      } else {
        CopyBy<1, kOuter>(to + place_, depth, outer_left_, depth);
      }
      from_ += kTensorSlab * ld_;
    }
  }

 private:
  // Lines up to `lines` and positions up to `positions` exist.
  template <int kElements, int kAcross>
  __device__ __forceinline__ void CopyBy(uint32_t to, int lines, int positions, int depth) {
    constexpr int kStep = kTensorProducers / kAcross;
    constexpr int kCopies = kOuter * kTensorSlab / kElements / kTensorProducers;
    static_assert(kStep > 0 && kTensorProducers % kAcross == 0 &&
                      kOuter * kTensorSlab % (kElements * kTensorProducers) == 0,
                  "all copy as much");
    // Lines that are kStep apart are permuted as these bits say, since line_ is less than kStep.
    const auto place = [&](int i) {
      return (to ^ static_cast<uint32_t>(i * kStep % 4 * 32)) + i * kStep * kTensorLineBytes;
    };
    const auto bytes = static_cast<uint32_t>(min(max(positions - at_, 0), kElements) * 8);
    const double* from = from_;
#pragma unroll
    for (int i = 0; i < kCopies; ++i, from += step_) {
      const uint32_t of_line = line_ + i * kStep < lines ? bytes : 0;
      if constexpr (kElements == 2) {
        CopyAsync16(place(i), from, of_line);
      } else {
        CopyAsync8(place(i), from, of_line);
      }
    }
    if (depth == kTensorSlab) return;
    WaitForCopies();
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i) {
      for (int e = 0; e < kElements; ++e) {
        const int k = along_k_ ? at_ + e : line_ + i * kStep;
        if (k >= depth) StoreSharedF64(place(i) + e * 8, fill_);
      }
    }
  }

  const double* base_;
  double fill_;
  bool along_k_;
  bool by_16_;
  int64_t ld_;
  int line_;  // of the first copy, and the position there
  int at_;
  uint32_t place_;
  int64_t step_;
  const double* from_ = nullptr;
  int outer_left_ = 0;
};

// Where a warp's thread finds its first operand in a slab: row (or column) g of the warp's, product
// t, for lane 4 g + t.
__device__ inline uint32_t TensorFragmentOffset(bool along_k, int outer) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (along_k) return TensorPlace(lane / 4, lane % 4) + outer * kTensorLineBytes;
  return (TensorPlace(lane % 4, lane / 4) ^ (outer / 8 % 2 * 64)) + outer / 16 * kTensorPanelBytes;
}

// The operands of 8 rows of A, or columns of B, for an mma of 4 kCount products of a slab: products
// 4 q + t from q = `first` on. `eight` counts them from the warp's first, at which `from` is.
template <bool kAlongK, int kCount>
__device__ __forceinline__ void TensorLoadEight(uint32_t from, int eight, int first,
                                                double (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int q = first + i;
    to[i] = LoadSharedF64(kAlongK ? (from ^ static_cast<uint32_t>(q * 32)) +
                                        eight * 8 * kTensorLineBytes
                                  : (from ^ static_cast<uint32_t>(eight % 2 * 64)) +
                                        q * 4 * kTensorLineBytes + eight / 2 * kTensorPanelBytes);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_TENSOR_FEED_CUH_
