// Which product a pair of arrays asks for: the rules of numpy.matmul for two and three dimensions.

#ifndef GEMMD_CLIENT_CLI_MATMUL_SHAPE_H_
#define GEMMD_CLIENT_CLI_MATMUL_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/npy.h"

namespace gemm::cli {

struct MatmulOperand {
  std::string name;  // for errors
  Shape shape;
  bool fortran_order = false;
  bool transpose = false;  // of the last two dimensions
};

// How an operand's elements, in file order, are to be read.
struct MatmulView {
  bool transposed = false;
  std::optional<int64_t> batch_stride;  // 0: shared by the batch; unset: packed
};

struct MatmulShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch_count = 1;
  Shape result;  // two-dimensional when both operands are
  MatmulView a;
  MatmulView b;
};

// INVALID_ARGUMENT says in words why the shapes do not go together.
absl::StatusOr<MatmulShape> ShapeOfMatmul(const MatmulOperand& a, const MatmulOperand& b);

// How C is added to such a result. C may lack the batch dimension or have 1 there. `transposed` is
// set for Fortran order: the protocol takes C row by row only, so the caller has to reorder it.
absl::StatusOr<MatmulView> ViewOfAddend(const MatmulOperand& c, const MatmulShape& product);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_MATMUL_SHAPE_H_
