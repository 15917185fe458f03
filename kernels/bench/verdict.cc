#include "kernels/bench/verdict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace gemm {
namespace {

struct Strides {
  int64_t row;
  int64_t column;
};

Strides StridesOf(const MatrixLayout& layout) {
  return layout.transposed ? Strides{1, layout.ld} : Strides{layout.ld, 1};
}

// Calls body(batch, i, j, index of the element in D's buffer) for each element of D in order.
template <typename Body>
void ForEachElement(const Problem& problem, size_t offset, Body body) {
  for (int64_t q = 0; q < problem.batch_count; ++q) {
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        body(q, i, j,
             offset + static_cast<size_t>(q * problem.d.batch_stride + i * problem.d.ld + j));
      }
    }
  }
}

// Keeps the first fault and counts the rest.
class Faults {
 public:
  void Add(int64_t q, int64_t i, int64_t j, double got, double want) {
    if (++count_ > 1) return;
    char text[160];
    std::snprintf(text, sizeof(text), "D[%lld][%lld, %lld] is %.9g, should be %.9g",
                  static_cast<long long>(q), static_cast<long long>(i), static_cast<long long>(j),
                  got, want);
    first_ = text;
  }
  void Add(std::string first) {
    if (++count_ == 1) first_ = std::move(first);
  }

  Verdict Finish(double worst_ratio = 0) const {
    Verdict verdict;
    verdict.ok = count_ == 0;
    verdict.worst_ratio = worst_ratio;
    if (!verdict.ok) verdict.fault = first_ + " (" + std::to_string(count_) + " wrong)";
    return verdict;
  }

 private:
  int64_t count_ = 0;
  std::string first_;
};

template <typename T>
auto BitsOf(T value) {
  return std::bit_cast<std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>>(value);
}

template <typename T>
bool SameBits(T one, T two) {
  return BitsOf(one) == BitsOf(two) || (std::isnan(one) && std::isnan(two));
}

}  // namespace

template <typename T>
Expected<T> ExpectedResult(const Problem& problem, const CaseData<T>& data) {
  using Wide = WideOf<T>;
  const Strides a = StridesOf(problem.a);
  const Strides b = StridesOf(problem.b);
  const Wide alpha = static_cast<T>(problem.alpha);
  const Wide beta = static_cast<T>(problem.beta);
  const Wide unit = std::numeric_limits<T>::epsilon() / 2;
  const int64_t k = ReadsAB(problem) ? problem.k : 0;
  const Wide sum_error = 4 * std::sqrt(static_cast<Wide>(k)) * unit;

  Expected<T> expected;
  const auto elements = static_cast<size_t>(problem.batch_count * problem.m * problem.n);
  expected.value.reserve(elements);
  expected.bound.reserve(elements);
  std::vector<Wide> sum(static_cast<size_t>(problem.n));
  std::vector<Wide> magnitude(static_cast<size_t>(problem.n));
  for (int64_t q = 0; q < problem.batch_count; ++q) {
    const T* a_matrix = data.a.data() + q * problem.a.batch_stride;
    const T* b_matrix = data.b.data() + q * problem.b.batch_stride;
    for (int64_t i = 0; i < problem.m; ++i) {
      std::fill(sum.begin(), sum.end(), Wide{0});
      std::fill(magnitude.begin(), magnitude.end(), Wide{0});
      for (int64_t p = 0; p < k; ++p) {
        const Wide left = a_matrix[i * a.row + p * a.column];
        const T* right = b_matrix + p * b.row;
        for (int64_t j = 0; j < problem.n; ++j) {
          const Wide product = left * static_cast<Wide>(right[j * b.column]);
          sum[static_cast<size_t>(j)] += product;
          magnitude[static_cast<size_t>(j)] += std::abs(product);
        }
      }
      const T* c_row = data.c.data() + q * problem.c.batch_stride + i * problem.c.ld;
      for (int64_t j = 0; j < problem.n; ++j) {
        const auto column = static_cast<size_t>(j);
        // As the contract says, not 0 * what was never to be read.
        const Wide product = k == 0 ? Wide{0} : alpha * sum[column];
        const Wide addend = ReadsC(problem) ? beta * static_cast<Wide>(c_row[j]) : Wide{0};
        const Wide value = product + addend;
        expected.value.push_back(value);
        expected.bound.push_back(
            unit * std::abs(value) +
            (k == 0 ? Wide{0} : std::abs(alpha) * sum_error * magnitude[column]) +
            unit * std::abs(addend));
      }
    }
  }
  return expected;
}

template <typename T>
std::vector<T> SequentialResult(const Problem& problem, const CaseData<T>& data) {
  const Strides a = StridesOf(problem.a);
  const Strides b = StridesOf(problem.b);
  const bool reads_ab = ReadsAB(problem);
  const T alpha = reads_ab ? static_cast<T>(problem.alpha) : T{0};
  const T beta = static_cast<T>(problem.beta);
  std::vector<T> result;
  ForEachElement(problem, 0, [&](int64_t q, int64_t i, int64_t j, size_t /*index*/) {
    const T* left = data.a.data() + q * problem.a.batch_stride + i * a.row;
    const T* right = data.b.data() + q * problem.b.batch_stride + j * b.column;
    T sum = 0;
    for (int64_t p = 0; reads_ab && p < problem.k; ++p) {
      sum = std::fma(left[p * a.column], right[p * b.row], sum);
    }
    if (beta == 0) {
      result.push_back(alpha * sum);
    } else {
      // volatile: the compiler must not contract beta * c into the fma that follows.
      const volatile T addend =
          beta * data.c.data()[q * problem.c.batch_stride + i * problem.c.ld + j];
      result.push_back(std::fma(alpha, sum, static_cast<T>(addend)));
    }
  });
  return result;
}

template <typename T>
Verdict CheckExact(const Problem& problem, const Expected<T>& expected, const HostOperand<T>& d) {
  Faults faults;
  size_t next = 0;
  ForEachElement(problem, d.offset, [&](int64_t q, int64_t i, int64_t j, size_t index) {
    const WideOf<T> want = expected.value[next++];
    const WideOf<T> got = d.buffer[index];
    if (got == want || (std::isnan(got) && std::isnan(want))) return;
    faults.Add(q, i, j, static_cast<double>(got), static_cast<double>(want));
  });
  return faults.Finish();
}

template <typename T>
Verdict CheckBounded(const Problem& problem, const Expected<T>& expected, const HostOperand<T>& d) {
  Faults faults;
  double worst = 0;
  size_t next = 0;
  ForEachElement(problem, d.offset, [&](int64_t q, int64_t i, int64_t j, size_t index) {
    const WideOf<T> want = expected.value[next];
    const WideOf<T> bound = expected.bound[next++];
    const WideOf<T> got = d.buffer[index];
    const WideOf<T> error = std::abs(got - want);
    if (error <= bound) {  // false for a NaN
      if (error > 0) worst = std::max(worst, static_cast<double>(error / bound));
      return;
    }
    worst = std::isnan(error) || bound == 0 ? std::numeric_limits<double>::infinity()
                                            : std::max(worst, static_cast<double>(error / bound));
    faults.Add(q, i, j, static_cast<double>(got), static_cast<double>(want));
  });
  return faults.Finish(worst);
}

template <typename T>
Verdict CheckCanaries(const Problem& problem, const HostOperand<T>& before,
                      const HostOperand<T>& after) {
  Faults faults;
  std::vector<bool> is_element(before.buffer.size(), false);
  ForEachElement(problem, before.offset,
                 [&](int64_t, int64_t, int64_t, size_t index) { is_element[index] = true; });
  for (size_t index = 0; index < before.buffer.size(); ++index) {
    if (is_element[index] || BitsOf(before.buffer[index]) == BitsOf(after.buffer[index])) {
      continue;
    }
    faults.Add("element " +
               std::to_string(static_cast<int64_t>(index) - static_cast<int64_t>(before.offset)) +
               " from the start of D, outside it, was overwritten");
  }
  return faults.Finish();
}

template <typename T>
Verdict CheckSameBits(const Problem& problem, const HostOperand<T>& one,
                      const HostOperand<T>& two) {
  Faults faults;
  ForEachElement(problem, one.offset, [&](int64_t q, int64_t i, int64_t j, size_t index) {
    if (SameBits(one.buffer[index], two.buffer[index])) return;
    faults.Add(q, i, j, two.buffer[index], one.buffer[index]);
  });
  return faults.Finish();
}

#define GEMM_INSTANTIATE(T)                                                                        \
  template Expected<T> ExpectedResult<T>(const Problem&, const CaseData<T>&);                      \
  template std::vector<T> SequentialResult<T>(const Problem&, const CaseData<T>&);                 \
  template Verdict CheckExact<T>(const Problem&, const Expected<T>&, const HostOperand<T>&);       \
  template Verdict CheckBounded<T>(const Problem&, const Expected<T>&, const HostOperand<T>&);     \
  template Verdict CheckCanaries<T>(const Problem&, const HostOperand<T>&, const HostOperand<T>&); \
  template Verdict CheckSameBits<T>(const Problem&, const HostOperand<T>&, const HostOperand<T>&)
GEMM_INSTANTIATE(float);
GEMM_INSTANTIATE(double);
#undef GEMM_INSTANTIATE

}  // namespace gemm
