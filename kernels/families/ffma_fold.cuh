// How a block that sums the quarters of a tile one after the other adds them, in the order of
// quarters (sum_order.h). A thread's 8 x 16 results leave no registers for a second set of sums, so
// those of the quarters before wait in shared memory, for which the ring has a stage less, and what
// finds no room there in a part of the workspace that is the block's own and stays in the L2 cache.
// Each element is its thread's alone, so that nobody waits for anybody.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_FOLD_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_FOLD_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_tile.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// Where a thread's sums of the quarters before are, each 32 elements behind the one before. By
// single elements: 16 bytes at a time would tie sums together, and ptxas would place the operands
// of the main loop such that it takes 4 to 8 % longer by the bank model.
template <FfmaKernel kKernel>
struct FfmaKeptSums {
  static constexpr FfmaShape kShape = kKernel.shape;
  static constexpr int kInRing = kShape.kept_in_ring();
  static constexpr int kShared = kInRing + kShape.kept_behind;
  static constexpr int kElsewhere = kShape.kept_elsewhere();  // a block's
  uint32_t in_ring;
  uint32_t behind;
  float* rest;

  __device__ __forceinline__ FfmaKeptSums(uint32_t ring, float* sums) {
    using Layout = FfmaLayout<kKernel>;
    constexpr int kLent = (Layout::kStages - kShape.lent_stages) * Layout::kStageBytes;
    const int thread = ThreadIndexAgain();
    const int warp = thread / 32;
    const int lane = thread % 32;
    in_ring = ring + kLent + warp * (kInRing * 128) + lane * 4;
    behind = ring + Layout::kRingBytes + warp * Layout::kStagingBytes + lane * 4;
    rest =
        sums + int64_t{blockIdx.x} * kElsewhere + warp * (kElsewhere / Layout::kConsumers) + lane;
  }

  __device__ __forceinline__ uint32_t At(int e) const {
    return e < kInRing ? in_ring + e * 128 : behind + (e - kInRing) * 128;
  }
  __device__ __forceinline__ float Load(int e) const {
    return e < kShared ? LoadShared(At(e)) : __ldcg(rest + (e - kShared) * 32);
  }
  __device__ __forceinline__ void Store(int e, float v) const {
    if (e < kShared) {
      StoreShared(At(e), v);
    } else {
      __stcg(rest + (e - kShared) * 32, v);
    }
  }
};

// Adds a thread's sums of a quarter to those of the quarters before it. After the last quarter
// `sum` is of all; before that it is of no use any more.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaFold(uint32_t ring, float* sums, int quarter,
                                         float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  constexpr int kColumns = kKernel.shape.columns;
  constexpr int kSums = kKernel.shape.rows * kColumns;
  constexpr int kLastQuarter = 3;
  constexpr int kAhead = 32;  // sums that are asked for before they are needed
  const FfmaKeptSums<kKernel> kept(ring, sums);
  const auto of = [&](int e) -> float& { return sum[e / kColumns][e % kColumns]; };
  const auto add_each = [&](const auto& take) {
    float before[2 * kAhead];
#pragma unroll
    for (int first = 0; first < kSums + kAhead; first += kAhead) {
#pragma unroll
      for (int e = first; e < first + kAhead; ++e) {
        if (e < kSums) before[e % (2 * kAhead)] = kept.Load(e);
      }
#pragma unroll
      for (int e = first - kAhead; e < first; ++e) {
        if (e >= 0) take(e, __fadd_rn(before[e % (2 * kAhead)], of(e)));
      }
    }
  };
  if (quarter == 0) {
#pragma unroll
    for (int e = 0; e < kSums; ++e) kept.Store(e, of(e));
  } else if (quarter < kLastQuarter) {
    add_each([&](int e, float so_far) { kept.Store(e, so_far); });
  } else {
    add_each([&](int e, float all) { of(e) = all; });
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_FOLD_CUH_
