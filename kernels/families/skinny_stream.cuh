// A warp's part of the skinny family's kernel: its stream of steps, and the sums of their products.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_STREAM_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_STREAM_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/skinny_feed.cuh"
#include "kernels/families/skinny_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace gemm {

// A warp's stream of its products, through its own part of the ring: no other warp has to do with
// it.
template <typename Shape, bool kXAlong, bool kMatrixAlong>
class SkinnyStream {
 public:
  static constexpr bool kBoxes = Shape::kEngine;
  // Whether x may come by elements beside boxes of the matrix.
  static constexpr bool kByElements = Shape::kQuartered;
  // x is aligned, or copied to where it is, or comes element by element.
  using X = SkinnySide<true, kXAlong, Shape::kRows, Shape::kGranules, Shape::kTeams,
                       SkinnyRows::kAligned>;
  using Matrix = SkinnySide<false, kMatrixAlong, Shape::kStrip, Shape::kGranules, Shape::kGroups,
                            Shape::kMatrixRows>;
  static_assert(4 * X::kRows * X::kPitch <= Shape::kXBytes &&
                4 * Matrix::kRows * Matrix::kPitch <= Shape::kMatrixBytes);
  static constexpr int kLanes = LanesOf(Shape::kRows);
  static constexpr int kValues = Shape::kThreadRows * Shape::kThreadColumns;
  static_assert(Shape::kThreadRows % 2 == 0);

  __device__ __forceinline__ SkinnyStream(const SkinnyGemm& g, const CUtensorMap* map_x,
                                          const CUtensorMap* map_matrix, uint32_t shared)
      : g_(g), map_x_(map_x), map_matrix_(map_matrix) {
    const uint32_t warp = threadIdx.x / 32;
    matrix_at_ = shared + warp * (Stages() * Shape::kMatrixBytes);
    x_at_ =
        shared + kLaneWarps * Stages() * Shape::kMatrixBytes + warp * (Stages() * Shape::kXBytes);
    full_ = shared + Shape::kBarriersAt + warp * (8 * Shape::kStages);
    if constexpr (kBoxes) {
      if (Thread() == 0) {
        const int arrivals = kByElements && g.x_by_elements ? 1 + 32 : 1;
        for (int s = 0; s < Shape::kStages; ++s) BarrierInit(full_ + 8 * s, arrivals);
        BarrierInitFence();
      }
      __syncwarp();
    }
  }

  __device__ __forceinline__ static int Thread() { return static_cast<int>(threadIdx.x) % 32; }
  // Half a warp has two teams where x's rows lie side by side, and two lanes where k does: of x it
  // reads 32 bytes in a row. Of a narrow strip it has one lane, and each four neighbours ask for
  // two addresses of either operand.
  static constexpr int kLaneUnit = kXAlong && !Shape::kNarrow ? Shape::kGroups : 32 / kLanes;
  static constexpr int kTeamUnit = kXAlong ? Shape::kGroups * kLanes : Shape::kGroups;
  __device__ __forceinline__ static int Group() {
    if constexpr (Shape::kNarrow) return Thread() % 2 + Thread() / 4 % 2 * 2;
    return Thread() % Shape::kGroups;
  }
  __device__ __forceinline__ static int Lane() { return Thread() / kLaneUnit % kLanes; }
  __device__ __forceinline__ static int Team() {
    if constexpr (Shape::kNarrow) return Thread() / 2 % 2 + Thread() / 8 % 2 * 2;
    return Thread() / kTeamUnit % Shape::kTeams;
  }

  // A constant in all kernels but those that may have fewer.
  __device__ __forceinline__ int Stages() const {
    return g_.fewer_stages ? Shape::kFewerStages : Shape::kStages;
  }

  // The warp's sums of the chunk of `count` products from `begin` on.
  __device__ __forceinline__ void Sum(int64_t batch, int64_t begin, int count, int64_t j0,
                                      float (&sum)[kValues]) {
    batch_ = batch;
    j0_ = j0;
    first_ = begin + threadIdx.x / 32 * kLaneBlock;
    left_ = count - static_cast<int>(threadIdx.x / 32) * kLaneBlock;
    steps_ = 0;
    if (left_ > 0) {
      const int rounds = (left_ - 1) / kLaneRound;
      const int last = min(left_ - rounds * kLaneRound, kLaneBlock);
      steps_ = rounds * kStepsABlock + (last - 1) / Shape::kStep + 1;
    }
    if constexpr (Matrix::kShifted) {
      matrix_shifts_.template Set<Matrix>(MatrixAt(first_),
                                          kMatrixAlong ? g_.matrix_row : g_.matrix_column, Group());
    }
    // Boxes are asked for a whole ring ahead. Other copies come a step later, so that a step's
    // threads wait once, for theirs and for each other.
    const int ahead = kBoxes ? Stages() : Stages() - 1;
    if (kBoxes && g_.x_is_packed) {
#pragma unroll 1
      for (int s = 0; s < ahead; ++s) Fetch<true, false>(s, (slot_ + s) % Stages());
      WaitForKernelBefore();
#pragma unroll 1
      for (int s = 0; s < ahead; ++s) Fetch<false, true>(s, (slot_ + s) % Stages());
    } else {
#pragma unroll 1
      for (int s = 0; s < ahead; ++s) Fetch(s, (slot_ + s) % Stages());
    }
#pragma unroll
    for (float& value : sum) value = 0;
#pragma unroll 1
    for (int step = 0; step < steps_; ++step) {
      if constexpr (kBoxes) {
        BarrierWait(full_ + 8 * slot_, parity_);
      } else {
        if (Stages() == Shape::kStages) {
          WaitForCopyGroups<Shape::kStages - 2>();
        } else {
          WaitForCopyGroups<Shape::kFewerStages - 2>();
        }
        __syncwarp();
        Fetch(step + ahead, (slot_ + ahead) % Stages());
      }
      Multiply(sum);
      if constexpr (kBoxes) {
        __syncwarp();
        Fetch(step + ahead, slot_);
      }
      if (++slot_ == Stages()) {
        slot_ = 0;
        parity_ ^= 1;
      }
    }
    if constexpr (!kBoxes) WaitForCopies();
  }

 private:
  static constexpr int kStepsABlock = kLaneBlock / Shape::kStep;

  template <bool kFetchMatrix = true, bool kFetchX = true>
  __device__ __forceinline__ void Fetch(int step, int slot) {
    if (step < steps_) {
      const int l = step / kStepsABlock * kLaneRound + step % kStepsABlock * Shape::kStep;
      const uint32_t matrix_to = matrix_at_ + slot * Shape::kMatrixBytes;
      const uint32_t x_to = x_at_ + slot * Shape::kXBytes;
      if constexpr (kBoxes) {
        using MatrixBoxes = SkinnyBoxes<Matrix>;
        using XBoxes = SkinnyBoxes<X>;
        const bool by_elements = kByElements && g_.x_by_elements;
        if (Thread() < MatrixBoxes::kBoxes) {
          const uint32_t full = full_ + 8 * slot;
          const int k = static_cast<int>(first_) + l;
          const int j = static_cast<int>(j0_);
          const int batch = static_cast<int>(batch_);
          const bool first = MatrixBoxes::kBoxes == 1 || Thread() == 0;
          if (kFetchMatrix) {
            if (first) {
              BarrierArriveExpecting(full,
                                     MatrixBoxes::kBytes + (by_elements ? 0 : XBoxes::kBytes));
            }
            MatrixBoxes::Copy(matrix_to, map_matrix_, j, k, batch * g_.box_step_matrix, Thread(),
                              full);
          }
          if (kFetchX && !by_elements && first) {
            XBoxes::Copy(x_to, map_x_, 0, k, batch * g_.box_step_x, Thread(), full);
          }
        }
        if constexpr (kByElements && kFetchX) {
          if (by_elements) {
            CopyElements<X>(XAt(first_ + l), g_.x_row, g_.x_column, static_cast<int>(g_.rows),
                            left_ - l, Thread(), x_to);
            BarrierArriveAfterCopies(full_ + 8 * slot);
          }
        }
      } else {
        const int64_t k = first_ + l;
        CopyMatrix<Matrix>(MatrixAt(k), kMatrixAlong ? g_.matrix_row : g_.matrix_column,
                           static_cast<int>(min(g_.length - j0_, int64_t{2 * Shape::kStrip})),
                           left_ - l, Thread(), matrix_to);
        CopyX<X>(XAt(k), g_.x_row, g_.x_column, g_.x_16, static_cast<int>(g_.rows), left_ - l,
                 Thread(), x_to);
      }
    }
    if constexpr (!kBoxes) CommitCopies();
  }

  __device__ __forceinline__ const float* MatrixAt(int64_t k) const {
    return g_.matrix + batch_ * g_.matrix_batch + j0_ * g_.matrix_row + k * g_.matrix_column;
  }
  __device__ __forceinline__ const float* XAt(int64_t k) const {
    return g_.x + batch_ * g_.x_batch + k * g_.x_column;
  }

  // Of what is full: the matrix's elements of a granule stay in registers, those of x pass by.
  __device__ __forceinline__ void Multiply(float (&sum)[kValues]) const {
    constexpr int kColumns = Shape::kThreadColumns;
    const uint32_t matrix = matrix_at_ + slot_ * Shape::kMatrixBytes;
    const uint32_t x = x_at_ + slot_ * Shape::kXBytes;
#pragma unroll Shape::kUnrolled
    for (int d = 0; d < Shape::kGranules / kLanes; ++d) {
      const int granule = d * kLanes + Lane();
      float b[kColumns][kLaneGranule];  // of the matrix, held; x passes by
      if constexpr (kMatrixAlong) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          LoadFour<Matrix>(matrix, matrix_shifts_, granule, j, 0, Group(), b[j]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kColumns * kLaneGranule; i += 4) {
          float four[4];
          LoadFour<Matrix>(matrix, matrix_shifts_, granule, i / 16, i / 4 % 4, Group(), four);
#pragma unroll
          for (int e = 0; e < 4; ++e) b[i / 16 * 4 + e][i / 4 % 4] = four[e];
        }
      }
      const auto multiply = [&](int r, int j, int l, float value) {
        sum[r * kColumns + j] = MultiplyAdd(value, b[j][l], sum[r * kColumns + j]);
      };
      if constexpr (!kXAlong) {
#pragma unroll
        for (int w = 0; w < Shape::kThreadRows / 4; ++w) {
#pragma unroll
          for (int l = 0; l < kLaneGranule; ++l) {
            float four[4];
            LoadFour<X>(x, {}, granule, w, l, Team(), four);
#pragma unroll
            for (int i = 0; i < 4 * kColumns; ++i) {
              const int e = kMatrixAlong ? Turn(i, 4) : i / kColumns;
              const int j = kMatrixAlong ? i / 4 : Turn(i, kColumns);
              multiply(w * 4 + e, j, l, four[e]);
            }
          }
        }
      } else if constexpr (!kMatrixAlong) {
#pragma unroll
        for (int r = 0; r < Shape::kThreadRows; r += 2) {
          float two[2][4];
          LoadFour<X>(x, {}, granule, r, 0, Team(), two[0]);
          LoadFour<X>(x, {}, granule, r + 1, 0, Team(), two[1]);
#pragma unroll
          for (int i = 0; i < 8 * kColumns; ++i) {
            const int l = i / (2 * kColumns);
            const int row = Turn(i / kColumns, 2);
            multiply(r + row, Turn(i, kColumns), l, two[row][l]);
          }
        }
      } else {
        float two[2][4];
#pragma unroll
        for (int t = 0; t <= 2 * Shape::kThreadRows; ++t) {
          const int even = t / 4 * 2;
          const int odd = (t - 1) / 4 * 2 + 1;
          if (t % 4 == 0 && even < Shape::kThreadRows)
            LoadFour<X>(x, {}, granule, even, 0, Team(), two[0]);
          if (t % 4 == 1 && odd < Shape::kThreadRows)
            LoadFour<X>(x, {}, granule, odd, 0, Team(), two[1]);
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            if (even < Shape::kThreadRows) multiply(even, j, t % 4, two[0][t % 4]);
            if (t > 0) multiply(odd, j, (t - 1) % 4, two[1][(t - 1) % 4]);
          }
        }
      }
    }
  }

  // Counts to and fro, so that what is read last is read again.
  __device__ __forceinline__ static constexpr int Turn(int i, int count) {
    return i / count % 2 == 0 ? i % count : count - 1 - i % count;
  }

  const SkinnyGemm& g_;
  const CUtensorMap* map_x_;
  const CUtensorMap* map_matrix_;
  uint32_t matrix_at_;
  uint32_t x_at_;
  uint32_t full_;
  int slot_ = 0;
  uint32_t parity_ = 0;
  SkinnyShifts matrix_shifts_;  // where rows are shifted
  // Of the chunk.
  int64_t batch_ = 0;
  int64_t j0_ = 0;
  int64_t first_ = 0;
  int left_ = 0;
  int steps_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_STREAM_CUH_
