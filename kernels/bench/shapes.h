// The products that every kernel is checked on, for gemm_bench and for the tests. Not square by
// default: m, n and k differ wherever a swap of two of them could hide.

#ifndef GEMMD_KERNELS_BENCH_SHAPES_H_
#define GEMMD_KERNELS_BENCH_SHAPES_H_

#include <string>
#include <vector>

#include "kernels/gemm.h"

namespace gemm {

enum class Fill {
  kIntegers,   // so small that every partial sum is representable: the result must be equal
  kReals,      // uniform in [-1, 1): the result must be within the error bound
  kNonFinite,  // integers with an infinity in A and a NaN in B: they must travel as IEEE says
};
const char* NameOf(Fill fill);

struct CheckCase {
  std::string name;  // unique in its list
  Problem problem;   // valid, D not empty
  Fill fill = Fill::kIntegers;
  bool c_is_d = false;  // C and D are one buffer
};

enum class CaseSet {
  kQuick,  // small enough for compute-sanitizer, which slows a kernel down a hundredfold
  kFull,
};

std::vector<CheckCase> CheckCases(DType dtype, CaseSet set);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_SHAPES_H_
