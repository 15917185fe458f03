#include "client/cli/perf/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"

namespace gemm::cli {
namespace {

// Multiply-adds that checking one product may take: a fraction of a second.
constexpr int64_t kCheckBudget = 1 << 25;

template <typename T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

// Sums of k roundings in any order stray by about sqrt(k) of them; 4 leaves room for bad luck.
template <typename T>
Wider<T> Tolerance(int64_t k) {
  return 4 * std::sqrt(static_cast<Wider<T>>(k)) * (std::numeric_limits<T>::epsilon() / 2);
}

}  // namespace

Workload::Workload(ShapeMix mix, int copies, uint64_t seed) : mix_(std::move(mix)) {
  for (size_t i = 0; i < mix_.shapes().size(); ++i) {
    const MixShape& shape = mix_.shapes()[i];
    largest_d_bytes_ = std::max(largest_d_bytes_, shape.d_bytes());
    Random random(seed, i);
    if (shape.type == ElementType::kF32) {
      operands_.emplace_back(Draw<float>(shape, copies, random));
    } else {
      operands_.emplace_back(Draw<double>(shape, copies, random));
    }
  }
}

template <typename T>
Workload::Operands<T> Workload::Draw(const MixShape& shape, int copies, Random& random) {
  const auto draw = [&random](int64_t elements) {
    std::vector<T> values(elements);
    for (T& value : values) value = static_cast<T>(2 * random.Uniform() - 1);
    return values;
  };
  Operands<T> operands;
  for (int copy = 0; copy < copies; ++copy) {
    operands.a.push_back(draw(shape.m * shape.k));
    if (copy == 0 || !shape.resident_b) operands.b.push_back(draw(shape.k * shape.n));
  }
  return operands;
}

absl::Status Workload::PutMatrices(const Client& client) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    const MixShape& shape = mix_.shapes()[i];
    if (!shape.resident_b) continue;
    const absl::StatusOr<MatrixInfo> matrix = std::visit(
        [&]<typename T>(const Operands<T>& operands) {
          return client.Put<T>({.rows = shape.transpose_b ? shape.n : shape.k,
                                .columns = shape.transpose_b ? shape.k : shape.n,
                                .data = operands.b[0]});
        },
        operands_[i]);
    if (!matrix.ok()) return matrix.status();
    matrix_names_.resize(operands_.size());
    matrix_names_[i] = matrix->name;
  }
  return absl::OkStatus();
}

void Workload::DeleteMatrices(const Client& client) {
  for (const std::string& name : matrix_names_) {
    if (!name.empty()) client.DeleteMatrix(name).IgnoreError();  // what is left expires
  }
  matrix_names_.clear();
}

AnyMultiplyArgs Workload::Args(size_t shape_index, int copy, std::byte* d) const {
  const MixShape& shape = mix_.shapes()[shape_index];
  return std::visit(
      [&]<typename T>(const Operands<T>& operands) -> AnyMultiplyArgs {
        MultiplyArgs<T> args;
        args.m = shape.m;
        args.n = shape.n;
        args.k = shape.k;
        args.a = {.data = operands.a[copy], .transposed = shape.transpose_a};
        args.b.transposed = shape.transpose_b;
        if (matrix_names_.empty()) {
          args.b.data = operands.b_of(copy);
        } else {
          args.b.matrix.name = matrix_names_[shape_index];
        }
        args.d.data = {reinterpret_cast<T*>(d), static_cast<size_t>(shape.m * shape.n)};
        return args;
      },
      operands_[shape_index]);
}

absl::Status Workload::Check(size_t shape, int copy, const std::byte* d) const {
  return std::visit(
      [&]<typename T>(const Operands<T>& operands) {
        return Check<T>(mix_.shapes()[shape], operands.a[copy], operands.b_of(copy),
                        reinterpret_cast<const T*>(d));
      },
      operands_[shape]);
}

template <typename T>
absl::Status Workload::Check(const MixShape& shape, const std::vector<T>& a_elements,
                             const std::vector<T>& b_elements, const T* d) {
  const auto check = [&](int64_t i, int64_t j) {
    Wider<T> sum = 0;
    Wider<T> magnitude = 0;
    for (int64_t l = 0; l < shape.k; ++l) {
      const Wider<T> a = a_elements[shape.transpose_a ? l * shape.m + i : i * shape.k + l];
      const Wider<T> b = b_elements[shape.transpose_b ? j * shape.k + l : l * shape.n + j];
      sum += a * b;
      magnitude += std::abs(a * b);
    }
    const T value = d[i * shape.n + j];
    const Wider<T> error = std::abs(static_cast<Wider<T>>(value) - sum);
    if (error <= Tolerance<T>(shape.k) * magnitude) return absl::OkStatus();  // not so for a NaN
    return absl::DataLossError(
        absl::StrFormat("the server's product of %s is wrong: element (%d, %d) is %g instead of %g",
                        shape.name(), i, j, static_cast<double>(value), static_cast<double>(sum)));
  };
  const int64_t elements = shape.m * shape.n;
  const int64_t samples = std::clamp<int64_t>(kCheckBudget / shape.k, 64, 1 << 16);
  if (elements <= samples) {
    for (int64_t e = 0; e < elements; ++e) {
      if (absl::Status status = check(e / shape.n, e % shape.n); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  // Edges are where kernels go wrong, so half of the samples are there.
  Random random(elements, shape.k);
  const auto draw = [&random](int64_t below) {
    return static_cast<int64_t>(random.Uniform() * static_cast<double>(below));
  };
  for (int64_t s = 0; s < samples; ++s) {
    int64_t i = draw(shape.m);
    int64_t j = draw(shape.n);
    if (s % 4 == 0) i = shape.m - 1 - std::min<int64_t>(i % 8, shape.m - 1);
    if (s % 4 == 1) j = shape.n - 1 - std::min<int64_t>(j % 8, shape.n - 1);
    if (absl::Status status = check(i, j); !status.ok()) return status;
  }
  return check(shape.m - 1, shape.n - 1);
}

}  // namespace gemm::cli
