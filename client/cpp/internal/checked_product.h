// MultiplyArgs without their element type, checked: after CheckProduct nothing computed from one
// wraps and every operand's bytes lie inside the caller's spans.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_CHECKED_PRODUCT_H_
#define GEMMD_CLIENT_CPP_INTERNAL_CHECKED_PRODUCT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/internal/matrix_bytes.h"
#include "gemmd/multiply.h"
#include "gemmd/types.h"

namespace gemm::client {

struct CheckedProduct {
  using Report = MultiplyReport;
  static constexpr char kMethod[] = "/gemm.v1.GemmService/Multiply";

  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch_count = 1;
  ElementType element_type = ElementType::kF32;
  int64_t element_bytes = 4;
  Precision precision = Precision::kStrict;
  double alpha = 1.0;
  double beta = 0.0;
  std::string request_id;
  std::optional<ResultMatrix> result;  // its name is set

  struct Input : MatrixBytes {
    MatrixRows matrix;  // on the server if it has a name; there are no bytes then
    bool transposed = false;
    bool shared = false;  // one matrix for the whole batch
  };
  Input a;
  Input b;
  Input c;
  bool has_c = false;
  MatrixBytes d;
};

struct CheckedBatch {
  using Report = MultiplyBatchReport;
  static constexpr char kMethod[] = "/gemm.v1.GemmService/MultiplyBatch";

  std::vector<CheckedProduct> products;
  std::string request_id;
};

struct UncheckedMatrix {
  const char* name = "";
  const void* data = nullptr;
  uint64_t elements = 0;
  bool transposed = false;
  int64_t leading_dimension = 0;
  std::optional<int64_t> batch_stride;
  MatrixRows matrix;
};

struct UncheckedProduct {
  CheckedProduct scalars;  // everything but the matrices
  UncheckedMatrix a, b, c, d;
};

absl::StatusOr<CheckedProduct> CheckProduct(const UncheckedProduct& args);

template <typename T>
absl::StatusOr<CheckedProduct> CheckProduct(const MultiplyArgs<T>& args) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "float or double");
  const auto in = [](const char* name, const MatrixIn<T>& x) {
    return UncheckedMatrix{name,         x.data.data(),       x.data.size(),
                           x.transposed, x.leading_dimension, x.batch_stride,
                           x.matrix};
  };
  UncheckedProduct unchecked;
  unchecked.scalars = {
      .m = args.m,
      .n = args.n,
      .k = args.k,
      .batch_count = args.batch_count,
      .element_type = std::is_same_v<T, float> ? ElementType::kF32 : ElementType::kF64,
      .element_bytes = sizeof(T),
      .precision = args.precision,
      .alpha = args.alpha,
      .beta = args.beta,
      .request_id = args.request_id,
      .result = args.result};
  unchecked.a = in("a", args.a);
  unchecked.b = in("b", args.b);
  unchecked.c = in("c", args.c);
  unchecked.d = {"d",   args.d.data.data(),       args.d.data.size(),
                 false, args.d.leading_dimension, args.d.batch_stride,
                 {}};
  return CheckProduct(unchecked);
}

absl::StatusOr<CheckedBatch> CheckBatch(std::span<const AnyMultiplyArgs> products,
                                        const std::string& request_id);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_CHECKED_PRODUCT_H_
