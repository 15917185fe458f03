#include "client/cpp/internal/checked_product.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/matrix_name.h"
#include "gemmd/error_detail.h"
#include "proto/limits.h"

namespace gemm::client {
namespace {

// Sums and products of non-negative numbers that remember whether they left int64.
class Checked {
 public:
  Checked(int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  friend Checked operator*(Checked x, Checked y) {
    x.wrapped_ |= y.wrapped_ | __builtin_mul_overflow(x.value_, y.value_, &x.value_);
    return x;
  }
  friend Checked operator+(Checked x, Checked y) {
    x.wrapped_ |= y.wrapped_ | __builtin_add_overflow(x.value_, y.value_, &x.value_);
    return x;
  }
  std::optional<int64_t> value() const {
    return wrapped_ ? std::nullopt : std::optional<int64_t>(value_);
  }

 private:
  int64_t value_;
  bool wrapped_ = false;
};

std::string Path(const UncheckedMatrix& matrix, const char* member) {
  return absl::StrCat(matrix.name, ".", member);
}

// An operand on the server, whose size only the server knows.
absl::StatusOr<CheckedProduct::Input> CheckOnServer(const UncheckedMatrix& matrix) {
  if (absl::Status status = CheckMatrixName(Path(matrix, "matrix.name"), matrix.matrix.name);
      !status.ok()) {
    return status;
  }
  if (matrix.matrix.row_begin < 0) {
    return InvalidField(Path(matrix, "matrix.row_begin"), "is less than 0");
  }
  if (matrix.matrix.row_count < 0) {
    return InvalidField(Path(matrix, "matrix.row_count"), "is less than 0");
  }
  if (matrix.elements != 0) {
    return InvalidField(Path(matrix, "data"), "is set beside a matrix on the server");
  }
  if (matrix.leading_dimension != 0) {
    return InvalidField(Path(matrix, "leading_dimension"), "is set for a matrix on the server");
  }
  if (matrix.batch_stride && *matrix.batch_stride != 0) {
    return InvalidField(
        Path(matrix, "batch_stride"),
        absl::StrCat("is ", *matrix.batch_stride, ", not 0, for a matrix on the server"));
  }
  CheckedProduct::Input checked;
  checked.matrix = matrix.matrix;
  checked.transposed = matrix.transposed;
  checked.shared = matrix.batch_stride.has_value();
  return checked;
}

// rows and columns are those of one stored matrix. may_share: a batch stride of 0 is allowed.
absl::StatusOr<CheckedProduct::Input> CheckMatrix(const UncheckedMatrix& matrix, int64_t rows,
                                                  int64_t columns, bool may_share,
                                                  const CheckedProduct& product) {
  if (matrix.leading_dimension != 0 && matrix.leading_dimension < columns) {
    return InvalidField(Path(matrix, "leading_dimension"),
                        absl::StrCat("is ", matrix.leading_dimension, ", less than a stored row's ",
                                     columns, " elements"));
  }
  const bool empty = rows == 0 || columns == 0 || product.batch_count == 0;
  const int64_t ld = matrix.leading_dimension != 0 ? matrix.leading_dimension : columns;

  const std::optional<int64_t> one =
      empty ? 0 : (Checked(rows - 1) * ld + columns).value();  // elements of one matrix
  const std::optional<int64_t> stride =
      matrix.batch_stride ? matrix.batch_stride : (Checked(rows) * ld).value();
  if (!one || !stride) {
    return InvalidField(Path(matrix, "leading_dimension"),
                        "makes a matrix larger than 64-bit sizes can count");
  }
  if (matrix.batch_stride && *stride < *one && (*stride != 0 || !may_share)) {
    if (*stride < 0 || product.batch_count > 1) {
      return InvalidField(
          Path(matrix, "batch_stride"),
          absl::StrCat("is ", *stride, ", less than the ", *one, " elements of one matrix"));
    }
  }

  CheckedProduct::Input checked;
  checked.transposed = matrix.transposed;
  checked.shared = matrix.batch_stride && *stride == 0 && may_share;
  checked.matrices = checked.shared ? 1 : product.batch_count;
  if (empty) {
    checked.matrices = 0;
    return checked;
  }
  const std::optional<int64_t> extent = (Checked(checked.matrices - 1) * *stride + *one).value();
  const std::optional<int64_t> extent_bytes =
      extent ? (Checked(*extent) * product.element_bytes).value() : std::nullopt;
  if (!extent_bytes) {
    return InvalidField(Path(matrix, "batch_stride"),
                        "makes a batch larger than 64-bit sizes can count");
  }
  if (matrix.elements < static_cast<uint64_t>(*extent)) {
    return InvalidField(
        Path(matrix, "data"),
        absl::StrCat("has ", matrix.elements, " elements, but its layout (", checked.matrices,
                     checked.matrices == 1 ? " matrix" : " matrices", " of ", rows, " x ", columns,
                     ", rows ", ld, " apart) needs ", *extent));
  }
  checked.data = static_cast<std::byte*>(const_cast<void*>(matrix.data));
  checked.rows = rows;
  checked.row_bytes = columns * product.element_bytes;
  // With a single row or matrix a stride is never taken, and may be too large to be counted.
  checked.row_stride_bytes = rows > 1 ? ld * product.element_bytes : checked.row_bytes;
  checked.matrix_stride_bytes = checked.matrices > 1 ? *stride * product.element_bytes : 0;
  return checked;
}

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return InvalidField("request_id", absl::StrCat("has ", request_id.size(),
                                                   " characters, more than ", kMaxRequestIdBytes));
  }
  for (const char c : request_id) {
    if (c < 0x20 || c > 0x7e) {
      return InvalidField("request_id", "has a character that is not printable ASCII");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(const CheckedProduct& product) {
  const std::pair<const char*, int64_t> dimensions[] = {
      {"m", product.m}, {"n", product.n}, {"k", product.k}};
  for (const auto& [name, value] : dimensions) {
    if (value < 0) return InvalidField(name, absl::StrCat("is ", value, ", less than 0"));
  }
  if (product.batch_count < 0 || product.batch_count > kMaxBatchCount) {
    return InvalidField("batch_count", absl::StrCat("is ", product.batch_count,
                                                    ", outside of 0 to ", kMaxBatchCount));
  }
  if (!(Checked(product.m) * product.n * product.k).value()) {
    return InvalidField("m", absl::StrCat("times n times k (", product.m, " x ", product.n, " x ",
                                          product.k, ") is more than 64-bit sizes can count"));
  }
  return CheckRequestId(product.request_id);
}

// Makes the name up where there is none.
absl::Status CheckResult(const UncheckedMatrix& d, ResultMatrix& result) {
  if (d.elements != 0) return InvalidField("d.data", "is set, but D is to stay on the server");
  if (result.time_to_live < absl::ZeroDuration()) {
    return InvalidField("result.time_to_live", "is less than 0");
  }
  if (!result.name.empty()) return CheckMatrixName("result.name", result.name);
  result.name = NewMatrixName();
  return absl::OkStatus();
}

// The error of one product, an InvalidField, as one of the batch.
absl::Status OfProduct(size_t index, const absl::Status& status) {
  const std::string field = GetErrorDetail(status).value_or(ErrorDetail()).field;
  return InvalidField(absl::StrCat("products[", index, "].", field),
                      std::string(status.message()).substr(field.size() + 1));
}

}  // namespace

absl::StatusOr<CheckedProduct> CheckProduct(const UncheckedProduct& args) {
  CheckedProduct product = args.scalars;
  if (const absl::Status scalars = CheckScalars(product); !scalars.ok()) return scalars;

  if (product.beta != 0.0 && args.c.transposed) {
    return InvalidField("c.transposed", "is true; c is taken as stored");
  }
  absl::Status status;
  const auto check = [&](const UncheckedMatrix& matrix, int64_t rows, int64_t columns,
                         bool may_share) -> CheckedProduct::Input {
    if (!status.ok()) return {};
    if (matrix.transposed) std::swap(rows, columns);
    absl::StatusOr<CheckedProduct::Input> checked =
        matrix.matrix.name.empty() ? CheckMatrix(matrix, rows, columns, may_share, product)
                                   : CheckOnServer(matrix);
    if (checked.ok()) return *checked;
    status = checked.status();
    return {};
  };
  product.a = check(args.a, product.m, product.k, true);
  product.b = check(args.b, product.k, product.n, true);
  product.has_c = product.beta != 0.0;
  if (product.has_c) product.c = check(args.c, product.m, product.n, true);
  if (!product.result) {
    product.d = check(args.d, product.m, product.n, false);
  } else if (status.ok()) {
    status = CheckResult(args.d, *product.result);
  }
  if (!status.ok()) return status;
  return product;
}

absl::StatusOr<CheckedBatch> CheckBatch(std::span<const AnyMultiplyArgs> products,
                                        const std::string& request_id) {
  if (products.empty()) return InvalidField("products", "has no entry");
  if (products.size() > kMaxBatchProducts) {
    return InvalidField("products", absl::StrCat("has ", products.size(), " entries, more than ",
                                                 kMaxBatchProducts));
  }
  if (absl::Status status = CheckRequestId(request_id); !status.ok()) return status;
  CheckedBatch batch{.products = {}, .request_id = request_id};
  batch.products.reserve(products.size());
  for (size_t i = 0; i < products.size(); ++i) {
    absl::StatusOr<CheckedProduct> product =
        std::visit([](const auto& args) { return CheckProduct(args); }, products[i]);
    if (!product.ok()) return OfProduct(i, product.status());
    if (!product->request_id.empty()) {
      return OfProduct(i, InvalidField("request_id", "is set; a batch has one of its own"));
    }
    batch.products.push_back(*std::move(product));
  }
  return batch;
}

}  // namespace gemm::client
