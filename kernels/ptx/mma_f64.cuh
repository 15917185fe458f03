// Multiply-adds of f64 on tensor cores, a warp's together. sm_90.

#ifndef GEMMD_KERNELS_PTX_MMA_F64_CUH_
#define GEMMD_KERNELS_PTX_MMA_F64_CUH_

#include <cuda_runtime.h>

namespace gemm {

// 16 x 8 sums and 16 products of each, k ascending, each added by a fused multiply-add. Lane 4 g +
// t brings A(g, t + 4 q) as a_low[q], A(g + 8, t + 4 q) as a_high[q] and B(t + 4 q, g) as b[q], and
// has the sums (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ __forceinline__ void MultiplyF64(double (&sum)[4], const double (&a_low)[4],
                                            const double (&a_high)[4], const double (&b)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, "
      "{%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a_low[0]), "d"(a_high[0]), "d"(a_low[1]), "d"(a_high[1]), "d"(a_low[2]), "d"(a_high[2]),
        "d"(a_low[3]), "d"(a_high[3]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

// The same of 8 products.
__device__ __forceinline__ void MultiplyF64(double (&sum)[4], const double (&a_low)[2],
                                            const double (&a_high)[2], const double (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a_low[0]), "d"(a_high[0]), "d"(a_low[1]), "d"(a_high[1]), "d"(b[0]), "d"(b[1]));
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_MMA_F64_CUH_
