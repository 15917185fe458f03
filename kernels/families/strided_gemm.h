// The kernel argument of the SIMT families: one problem with its addresses, transposes turned into
// row and column strides.

#ifndef GEMMD_KERNELS_FAMILIES_STRIDED_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_STRIDED_GEMM_H_

#include <cstdint>
#include <type_traits>

#include "kernels/gemm.h"

namespace gemm {

template <DType kDType>
using ElementOf = std::conditional_t<kDType == DType::kF32, float, double>;

// Element (i, p) of op(A) is at a[batch * a_batch + i * a_row + p * a_column]; likewise B, C, D.
template <typename T>
struct StridedGemm {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t batch_count;
  const T* a;
  int64_t a_row;
  int64_t a_column;
  int64_t a_batch;
  const T* b;
  int64_t b_row;
  int64_t b_column;
  int64_t b_batch;
  const T* c;
  int64_t c_row;
  int64_t c_batch;
  T* d;
  int64_t d_row;
  int64_t d_batch;
  T alpha;
  T beta;
};

template <typename T>
StridedGemm<T> MakeStridedGemm(const Problem& problem, const Operands& operands) {
  StridedGemm<T> p;
  p.m = problem.m;
  p.n = problem.n;
  p.batch_count = problem.batch_count;
  // alpha = 0 and k = 0 both mean that D = beta * C whatever A, B and the other one are: an
  // infinite alpha must not meet the empty sum.
  const bool reads_ab = ReadsAB(problem);
  p.k = reads_ab ? problem.k : 0;
  p.alpha = reads_ab ? static_cast<T>(problem.alpha) : T{0};
  p.beta = static_cast<T>(problem.beta);
  p.a = static_cast<const T*>(operands.a);
  p.a_row = problem.a.transposed ? 1 : problem.a.ld;
  p.a_column = problem.a.transposed ? problem.a.ld : 1;
  p.a_batch = problem.a.batch_stride;
  p.b = static_cast<const T*>(operands.b);
  p.b_row = problem.b.transposed ? 1 : problem.b.ld;
  p.b_column = problem.b.transposed ? problem.b.ld : 1;
  p.b_batch = problem.b.batch_stride;
  p.c = static_cast<const T*>(operands.c);
  p.c_row = problem.c.ld;
  p.c_batch = problem.c.batch_stride;
  p.d = static_cast<T*>(operands.d);
  p.d_row = problem.d.ld;
  p.d_batch = problem.d.batch_stride;
  return p;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_STRIDED_GEMM_H_
