// What the right answer is and whether a result is it: host code without CUDA, so that the checkers
// themselves are tested with wrong results made on purpose.

#ifndef GEMMD_KERNELS_BENCH_VERDICT_H_
#define GEMMD_KERNELS_BENCH_VERDICT_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/bench/case_data.h"
#include "kernels/gemm.h"

namespace gemm {

// The type that a product of T is checked in: twice the digits for f32, 11 bits more for f64, whose
// bound is more than those wider than the reference's own error up to k = 2^24.
template <typename T>
using WideOf = std::conditional_t<std::is_same_v<T, float>, double, long double>;

// The product in the wider type, densely packed in D's order, and the error that each element may
// have: |d - value| <= bound.
template <typename T>
struct Expected {
  std::vector<WideOf<T>> value;
  std::vector<WideOf<T>> bound;
};

// alpha and beta are rounded to T first. The bound is that of sequential sums,
//   u |value| + |alpha| 4 sqrt(k) u (|A| |B|) + u |beta C|,  u = 2^-24 or 2^-53:
// a random walk of k roundings, four standard deviations wide. The provable k u catches nothing at
// large k.
template <typename T>
Expected<T> ExpectedResult(const Problem& problem, const CaseData<T>& data);

// The sum as the sequential numerics class defines it, to the bit: fma in T, ascending k.
template <typename T>
std::vector<T> SequentialResult(const Problem& problem, const CaseData<T>& data);

struct Verdict {
  bool ok = true;
  double worst_ratio = 0;  // the largest error over its bound; CheckBounded only
  std::string fault;       // the first element that is wrong, and how many are
};

// Equal by value; NaN equals NaN.
template <typename T>
Verdict CheckExact(const Problem& problem, const Expected<T>& expected, const HostOperand<T>& d);

template <typename T>
Verdict CheckBounded(const Problem& problem, const Expected<T>& expected, const HostOperand<T>& d);

// Everything in D's buffer that is not an element of D is as it was.
template <typename T>
Verdict CheckCanaries(const Problem& problem, const HostOperand<T>& before,
                      const HostOperand<T>& after);

// The elements of D have the same bits; NaNs may differ in theirs.
template <typename T>
Verdict CheckSameBits(const Problem& problem, const HostOperand<T>& one, const HostOperand<T>& two);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_VERDICT_H_
