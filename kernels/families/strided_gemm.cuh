// What every SIMT kernel of the sequential numerics class shares: its argument, its multiply-add
// and its epilogue. The intrinsics are explicit so that no compiler flag and no inlining decides
// how a sum is rounded: that is what makes the families agree bit for bit.

#ifndef GEMMD_KERNELS_FAMILIES_STRIDED_GEMM_CUH_
#define GEMMD_KERNELS_FAMILIES_STRIDED_GEMM_CUH_

#include <cuda_runtime.h>

#include "kernels/families/strided_gemm.h"

namespace gemm {

__device__ inline float MultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double MultiplyAdd(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ inline float Multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double Multiply(double a, double b) { return __dmul_rn(a, b); }

// Writes element (i, j) of D. The host has set k and alpha to 0 where A and B must not be read,
// so `sum` is then 0 and what is left is beta * C. C may be D: it is read just before the write.
template <typename T>
__device__ inline void StoreElement(const StridedGemm<T>& p, int64_t batch, int64_t i, int64_t j,
                                    T sum) {
  T result;
  if (p.beta == T{0}) {
    result = Multiply(p.alpha, sum);
  } else {
    const T c = p.c[batch * p.c_batch + i * p.c_row + j];
    result = MultiplyAdd(p.alpha, sum, Multiply(p.beta, c));
  }
  p.d[batch * p.d_batch + i * p.d_row + j] = result;
}

// Calls body(batch, first row, first column) for every kTileM x kTileN tile of D that this block
// owns. Grids reach 65535 in y and z; taller and longer problems go round.
template <int kTileM, int kTileN, typename T, typename Body>
__device__ inline void ForEachTile(const StridedGemm<T>& p, Body body) {
  const int64_t column0 = int64_t{blockIdx.x} * kTileN;
  for (int64_t batch = blockIdx.z; batch < p.batch_count; batch += gridDim.z) {
    for (int64_t row0 = int64_t{blockIdx.y} * kTileM; row0 < p.m;
         row0 += int64_t{gridDim.y} * kTileM) {
      body(batch, row0, column0);
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_STRIDED_GEMM_CUH_
