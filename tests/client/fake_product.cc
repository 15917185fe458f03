#include "tests/client/fake_product.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace gemm::testing {
namespace {

// An operand's elements by the contract's words: [q][i][j] of op(X), rows x columns.
template <typename T>
class Reader {
 public:
  Reader(const v1::MultiplyRequest& request, const v1::Operand& operand, int64_t rows,
         int64_t columns)
      : data_(request.payloads(static_cast<int>(operand.payload()))),
        transposed_(operand.transposed()) {
    const int64_t stored_rows = transposed_ ? columns : rows;
    const int64_t stored_columns = transposed_ ? rows : columns;
    ld_ = operand.leading_dimension() != 0 ? operand.leading_dimension() : stored_columns;
    stride_ = operand.has_batch_stride() ? operand.batch_stride() : stored_rows * ld_;
    const int64_t batch = stride_ == 0 ? 1 : request.product().batch_count();
    const int64_t extent = rows * columns * batch == 0
                               ? 0
                               : (batch - 1) * stride_ + (stored_rows - 1) * ld_ + stored_columns;
    exact_ = data_.size() == extent * sizeof(T);
  }

  bool exact() const { return exact_; }

  T operator()(int64_t q, int64_t i, int64_t j) const {
    if (transposed_) std::swap(i, j);
    T value;
    std::memcpy(&value, data_.data() + (q * stride_ + i * ld_ + j) * sizeof(T), sizeof(T));
    return value;
  }

 private:
  const std::string& data_;
  bool transposed_;
  int64_t ld_ = 0;
  int64_t stride_ = 0;
  bool exact_ = false;
};

template <typename T>
grpc::Status Compute(const v1::MultiplyRequest& request, std::string& d) {
  const v1::Product& p = request.product();
  const Reader<T> a(request, p.a(), p.m(), p.k());
  const Reader<T> b(request, p.b(), p.k(), p.n());
  const bool has_c = p.beta() != 0;
  const Reader<T> c = has_c ? Reader<T>(request, p.c(), p.m(), p.n()) : a;
  if (!a.exact() || !b.exact() || !c.exact()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "a payload's length is not what its operand needs"};
  }
  d.resize(p.batch_count() * p.m() * p.n() * sizeof(T));
  char* out = d.data();
  for (int64_t q = 0; q < p.batch_count(); ++q) {
    for (int64_t i = 0; i < p.m(); ++i) {
      for (int64_t j = 0; j < p.n(); ++j, out += sizeof(T)) {
        T sum = 0;
        for (int64_t l = 0; l < p.k(); ++l) sum += a(q, i, l) * b(q, l, j);
        T value = static_cast<T>(p.alpha()) * sum;
        if (has_c) value += static_cast<T>(p.beta()) * c(q, i, j);
        std::memcpy(out, &value, sizeof(T));
      }
    }
  }
  return grpc::Status::OK;
}

}  // namespace

grpc::Status ComputeProduct(const v1::MultiplyRequest& request, std::string& d) {
  return request.product().data_type() == v1::DATA_TYPE_F32 ? Compute<float>(request, d)
                                                            : Compute<double>(request, d);
}

}  // namespace gemm::testing
