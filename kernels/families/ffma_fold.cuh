// How a block that sums the quarters of a tile one after the other adds them, in the order of
// quarters (sum_order.h). A thread's 8 x 16 results leave no registers for a second set of sums, so
// those of the quarters before wait in a part of the workspace that is the block's own and stays in
// the L2 cache. Each element is its thread's alone, so that nobody waits for anybody.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_FOLD_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_FOLD_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_tile.cuh"

namespace gemm {

// Where in `sums` those of a thread begin, of a block of so many warps.
__device__ __forceinline__ float* FfmaOwnSums(float* sums, int warps, int sums_a_thread) {
  const int thread = ThreadIndexAgain();
  const int64_t warp = int64_t{blockIdx.x} * warps + thread / 32;
  return sums + warp * (32 * sums_a_thread) + thread % 32;
}

// Adds a thread's sums of a quarter to those of the quarters before it, which are at `mine` and
// every 32 elements further on. After the last quarter `sum` is of all; before that it is of
// no use any more. By single elements: 16 bytes at a time would tie sums together, and ptxas would
// place the operands of the main loop such that it takes 4 % longer by the bank model.
template <int kRows, int kColumns>
__device__ __forceinline__ void FfmaFold(float* mine, int quarter, float (&sum)[kRows][kColumns]) {
  constexpr int kLastQuarter = 3;
  constexpr int kAhead = 2;  // rows that are asked for before they are needed
  float before[kAhead + 1][kColumns];
  const auto for_each_row = [&](const auto& add) {
#pragma unroll
    for (int next = 0; next < kRows + kAhead; ++next) {
      if (next < kRows) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          // To -0 everything is added without a change.
          before[next % (kAhead + 1)][j] =
              quarter > 0 ? __ldcg(mine + (next * kColumns + j) * 32) : -0.0F;
        }
      }
      const int row = next - kAhead;
      if (row < 0) continue;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        add(row, j, __fadd_rn(before[row % (kAhead + 1)][j], sum[row][j]));
      }
    }
  };
  if (quarter == kLastQuarter) {
    for_each_row([&](int row, int j, float all) { sum[row][j] = all; });
  } else {
    for_each_row(
        [&](int row, int j, float so_far) { __stcg(mine + (row * kColumns + j) * 32, so_far); });
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_FOLD_CUH_
