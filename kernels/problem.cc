#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>

#include "kernels/gemm.h"

namespace gemm {
namespace {

constexpr int64_t kMaxBatchCount = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// Wide enough for rows * ld + batch_count * stride of any int64 values that Validate lets so far.
using Wide = __int128;

Wide ExtentOfOne(MatrixShape shape, int64_t ld) {
  if (shape.rows == 0 || shape.columns == 0) return 0;
  return Wide{shape.rows - 1} * ld + shape.columns;
}

Wide Extent(MatrixShape shape, const MatrixLayout& layout, int64_t batch_count) {
  const Wide one = ExtentOfOne(shape, layout.ld);
  if (one == 0 || batch_count == 0) return 0;
  return Wide{batch_count - 1} * layout.batch_stride + one;
}

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMaxInt64 : product;
}

std::string Text(const char* format, int64_t value, int64_t limit) {
  char text[160];
  std::snprintf(text, sizeof(text), format, value, limit);
  return text;
}

std::optional<ProblemFault> CheckSizes(const Problem& problem) {
  struct Size {
    const char* field;
    int64_t value;
  };
  const Size sizes[] = {
      {"m", problem.m}, {"n", problem.n}, {"k", problem.k}, {"batch_count", problem.batch_count}};
  for (const Size& size : sizes) {
    if (size.value < 0) {
      return ProblemFault{size.field,
                          Text("is %" PRId64 "; must be at least %" PRId64, size.value, 0)};
    }
  }
  if (problem.batch_count > kMaxBatchCount) {
    return ProblemFault{"batch_count", Text("is %" PRId64 "; must be at most %" PRId64,
                                            problem.batch_count, kMaxBatchCount)};
  }
  // A zero counts as one, so that every partial product (m * n * batch_count, say) fits as well.
  int64_t product = 1;
  for (const Size& size : sizes) {
    if (__builtin_mul_overflow(product, std::max<int64_t>(size.value, 1), &product)) {
      return ProblemFault{size.field,
                          Text("is %" PRId64 "; m * n * k * batch_count must be at most %" PRId64,
                               size.value, kMaxInt64)};
    }
  }
  return std::nullopt;
}

std::optional<ProblemFault> CheckLayout(const char* operand, MatrixShape shape,
                                        const MatrixLayout& layout, const Problem& problem) {
  const auto fault = [&](const char* field, std::string message) {
    return ProblemFault{std::string(operand) + "." + field, std::move(message)};
  };
  const int64_t min_ld = std::max<int64_t>(1, shape.columns);
  if (layout.ld < min_ld) {
    return fault("leading_dimension",
                 Text("is %" PRId64 "; must be at least the stored row's length, %" PRId64,
                      layout.ld, min_ld));
  }
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(problem.dtype));
  const int64_t max_elements = kMaxInt64 / element_bytes;
  const Wide one = ExtentOfOne(shape, layout.ld);
  if (one > max_elements) {
    return fault("leading_dimension",
                 Text("is %" PRId64 "; one matrix must span at most %" PRId64 " elements",
                      layout.ld, max_elements));
  }
  if (layout.batch_stride < 0 || (layout.batch_stride != 0 && layout.batch_stride < one)) {
    return fault("batch_stride",
                 Text("is %" PRId64 "; must be 0 or at least one matrix's extent, %" PRId64,
                      layout.batch_stride, static_cast<int64_t>(one)));
  }
  if (Extent(shape, layout, problem.batch_count) > max_elements) {
    return fault("batch_stride",
                 Text("is %" PRId64 "; the batch must span at most %" PRId64 " elements",
                      layout.batch_stride, max_elements));
  }
  const int64_t alignment = layout.alignment_bytes;
  if (alignment < element_bytes || (alignment & (alignment - 1)) != 0) {
    return fault("alignment_bytes",
                 Text("is %" PRId64 "; must be a power of two of at least %" PRId64 " bytes",
                      alignment, element_bytes));
  }
  return std::nullopt;
}

// C and D, which have no op.
std::optional<ProblemFault> CheckResultLayout(const char* operand, const MatrixLayout& layout,
                                              const Problem& problem) {
  if (layout.transposed) {
    return ProblemFault{std::string(operand) + ".transposed", "is true; only a and b may be"};
  }
  return CheckLayout(operand, StoredC(problem), layout, problem);
}

double Rounded(double value, DType dtype) {
  return dtype == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : value;
}

}  // namespace

size_t SizeOf(DType dtype) { return dtype == DType::kF32 ? sizeof(float) : sizeof(double); }

std::string_view NameOf(DType dtype) { return dtype == DType::kF32 ? "f32" : "f64"; }

Problem DenseProblem(DType dtype, int64_t m, int64_t n, int64_t k, int64_t batch_count) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.batch_count = batch_count;
  problem.dtype = dtype;
  const auto dense = [&](MatrixShape shape) {
    MatrixLayout layout;
    layout.ld = std::max<int64_t>(1, shape.columns);
    // Sizes have not been validated yet; Validate refuses what saturates here.
    layout.batch_stride = SaturatingMultiply(std::max<int64_t>(0, shape.rows), layout.ld);
    layout.alignment_bytes = static_cast<int32_t>(SizeOf(dtype));
    return layout;
  };
  problem.a = dense(StoredA(problem));
  problem.b = dense(StoredB(problem));
  problem.c = dense(StoredC(problem));
  problem.d = problem.c;
  return problem;
}

MatrixShape StoredA(const Problem& problem) {
  return problem.a.transposed ? MatrixShape{problem.k, problem.m}
                              : MatrixShape{problem.m, problem.k};
}

MatrixShape StoredB(const Problem& problem) {
  return problem.b.transposed ? MatrixShape{problem.n, problem.k}
                              : MatrixShape{problem.k, problem.n};
}

MatrixShape StoredC(const Problem& problem) { return {problem.m, problem.n}; }

int64_t ExtentElements(MatrixShape shape, const MatrixLayout& layout, int64_t batch_count) {
  return static_cast<int64_t>(Extent(shape, layout, batch_count));
}

bool ReadsAB(const Problem& problem) {
  return problem.k != 0 && Rounded(problem.alpha, problem.dtype) != 0;
}

bool ReadsC(const Problem& problem) { return Rounded(problem.beta, problem.dtype) != 0; }

bool IsEmpty(const Problem& problem) {
  return problem.m == 0 || problem.n == 0 || problem.batch_count == 0;
}

double FlopCount(const Problem& problem) {
  return 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
         static_cast<double>(problem.k) * static_cast<double>(problem.batch_count);
}

std::optional<ProblemFault> Validate(const Problem& problem) {
  if (problem.dtype != DType::kF32 && problem.dtype != DType::kF64) {
    return ProblemFault{"data_type", "is unknown"};
  }
  if (problem.precision != Precision::kStrict) return ProblemFault{"precision", "is unknown"};
  if (auto fault = CheckSizes(problem)) return fault;
  if (auto fault = CheckLayout("a", StoredA(problem), problem.a, problem)) return fault;
  if (auto fault = CheckLayout("b", StoredB(problem), problem.b, problem)) return fault;
  // A product that never reads C need not describe it.
  if (ReadsC(problem)) {
    if (auto fault = CheckResultLayout("c", problem.c, problem)) return fault;
  } else if (problem.c.transposed) {
    return ProblemFault{"c.transposed", "is true; only a and b may be"};
  }
  if (auto fault = CheckResultLayout("d", problem.d, problem)) return fault;
  if (problem.batch_count > 1 && problem.d.batch_stride == 0 && !IsEmpty(problem)) {
    return ProblemFault{"d.batch_stride", "is 0; the batch's results must not overlap"};
  }
  return std::nullopt;
}

}  // namespace gemm
