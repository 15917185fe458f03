#include "client/cli/matmul_shape.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gemm::cli {
namespace {

struct Matrices {
  int64_t batch = 1;  // 1 may be broadcast
  int64_t rows = 0;   // of op(X)
  int64_t columns = 0;
  bool transposed = false;
};

absl::StatusOr<Matrices> Interpret(const MatmulOperand& x) {
  if (x.shape.size() != 2 && x.shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(x.name, ": has ", x.shape.size(),
                                                   " dimensions (", ToString(x.shape),
                                                   "); 2 or 3 are needed"));
  }
  Matrices result;
  result.batch = x.shape.size() == 3 ? x.shape[0] : 1;
  result.rows = x.shape[x.shape.size() - 2];
  result.columns = x.shape[x.shape.size() - 1];
  // Fortran order of a stack has the batch as its fastest dimension: no matrix of it is contiguous.
  if (x.fortran_order && result.batch > 1 && CountElements(x.shape) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(x.name, ": a stack of matrices (", ToString(x.shape),
                     ") in Fortran order; save it with numpy.ascontiguousarray"));
  }
  if (x.transpose) std::swap(result.rows, result.columns);
  result.transposed = x.fortran_order != x.transpose;
  return result;
}

std::string Describe(const MatmulOperand& x) {
  return absl::StrCat(x.name, " (", ToString(x.shape), x.transpose ? ", transposed)" : ")");
}

MatmulView ViewOf(const Matrices& x, int64_t batch_count) {
  MatmulView view;
  view.transposed = x.transposed;
  if (x.batch == 1 && batch_count != 1) view.batch_stride = 0;
  return view;
}

}  // namespace

absl::StatusOr<MatmulShape> ShapeOfMatmul(const MatmulOperand& a, const MatmulOperand& b) {
  const absl::StatusOr<Matrices> left = Interpret(a);
  if (!left.ok()) return left.status();
  const absl::StatusOr<Matrices> right = Interpret(b);
  if (!right.ok()) return right.status();
  if (left->columns != right->rows) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions differ: ", Describe(a),
                                                   " has ", left->columns, " columns, ",
                                                   Describe(b), " has ", right->rows, " rows"));
  }
  if (left->batch != right->batch && left->batch != 1 && right->batch != 1) {
    return absl::InvalidArgumentError(absl::StrCat("batches differ: ", Describe(a), " has ",
                                                   left->batch, " matrices, ", Describe(b), " has ",
                                                   right->batch));
  }
  MatmulShape shape;
  shape.m = left->rows;
  shape.n = right->columns;
  shape.k = left->columns;
  shape.batch_count = left->batch == 1 ? right->batch : left->batch;
  shape.result = {shape.m, shape.n};
  if (a.shape.size() == 3 || b.shape.size() == 3) {
    shape.result.insert(shape.result.begin(), shape.batch_count);
  }
  shape.a = ViewOf(*left, shape.batch_count);
  shape.b = ViewOf(*right, shape.batch_count);
  return shape;
}

absl::StatusOr<MatmulView> ViewOfAddend(const MatmulOperand& c, const MatmulShape& product) {
  const absl::StatusOr<Matrices> addend = Interpret(c);
  if (!addend.ok()) return addend.status();
  if (addend->rows != product.m || addend->columns != product.n ||
      (addend->batch != 1 && addend->batch != product.batch_count)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(c), " cannot be added to a product of ", ToString(product.result)));
  }
  return ViewOf(*addend, product.batch_count);
}

}  // namespace gemm::cli
