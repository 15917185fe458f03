#include "kernels/bench/case_data.h"

#include <limits>

#include "kernels/bench/random_value.h"

namespace gemm {
namespace {

// The operand's first element lies a multiple of 256 bytes into the buffer when its layout promises
// an alignment beyond the element's, and at an odd element otherwise.
template <typename T>
HostOperand<T> Blank(MatrixShape shape, const MatrixLayout& layout, int64_t batch_count, T blank) {
  constexpr size_t kGuard = 256 / sizeof(T);
  const bool aligned = layout.alignment_bytes > static_cast<int32_t>(sizeof(T));
  HostOperand<T> operand;
  operand.offset = aligned ? kGuard : kGuard + 1;
  operand.buffer.assign(
      operand.offset + static_cast<size_t>(ExtentElements(shape, layout, batch_count)) + kGuard,
      blank);
  return operand;
}

template <typename T>
T Value(Fill fill, int integer_range, uint64_t seed, uint64_t index) {
  return fill == Fill::kReals ? static_cast<T>(RandomReal(seed, index))
                              : static_cast<T>(RandomInteger(seed, index, integer_range));
}

template <typename T>
void FillElements(MatrixShape shape, const MatrixLayout& layout, int64_t batch_count, Fill fill,
                  int integer_range, uint64_t seed, HostOperand<T>* operand) {
  const int64_t matrices = layout.batch_stride == 0 ? 1 : batch_count;
  uint64_t index = 0;
  for (int64_t q = 0; q < matrices; ++q) {
    for (int64_t i = 0; i < shape.rows; ++i) {
      T* row = operand->data() + q * layout.batch_stride + i * layout.ld;
      for (int64_t j = 0; j < shape.columns; ++j) {
        row[j] = Value<T>(fill, integer_range, seed, index++);
      }
    }
  }
}

// The largest range, up to 4, whose sums stay where f32 has every integer and alpha = 2, beta = 3
// still fit. It serves f64 as well.
int IntegerRange(int64_t k) {
  int range = 4;
  while (range > 1 && k * range * range > int64_t{1} << 22) --range;
  return range;
}

}  // namespace

template <typename T>
CaseData<T> MakeCaseData(const CheckCase& check_case, uint64_t seed) {
  const Problem& p = check_case.problem;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const int range = IntegerRange(p.k);
  CaseData<T> data;
  data.a = Blank<T>(StoredA(p), p.a, p.batch_count, nan);
  data.b = Blank<T>(StoredB(p), p.b, p.batch_count, nan);
  if (ReadsAB(p)) {
    FillElements(StoredA(p), p.a, p.batch_count, check_case.fill, range, seed, &data.a);
    FillElements(StoredB(p), p.b, p.batch_count, check_case.fill, range, seed + 1, &data.b);
    if (check_case.fill == Fill::kNonFinite) {
      // The middle of the first matrix: one row of D becomes infinite or NaN, one column NaN.
      const MatrixShape a = StoredA(p);
      const MatrixShape b = StoredB(p);
      data.a.data()[a.rows / 2 * p.a.ld + a.columns / 2] = std::numeric_limits<T>::infinity();
      data.b.data()[b.rows / 2 * p.b.ld + b.columns / 2] = nan;
    }
  }
  data.c = Blank<T>(StoredC(p), p.c, p.batch_count, nan);
  data.d = Blank<T>(StoredC(p), p.d, p.batch_count, Canary<T>());
  HostOperand<T>& c = check_case.c_is_d ? data.d : data.c;
  if (ReadsC(p)) FillElements(StoredC(p), p.c, p.batch_count, check_case.fill, range, seed + 2, &c);
  if (check_case.c_is_d) data.c = data.d;
  return data;
}

template CaseData<float> MakeCaseData<float>(const CheckCase&, uint64_t);
template CaseData<double> MakeCaseData<double>(const CheckCase&, uint64_t);

}  // namespace gemm
