// What Client::Multiply and Client::MultiplyBatch take and return: plain values over the caller's
// own memory, or by the names of matrices on the server.
//
//   D = alpha * op(A) op(B) + beta * C,  op(A) m x k, op(B) k x n, C and D m x n,
//
// for batch_count products of one shape. Storage is row-major; a column-major array is one that is
// `transposed`. In errors, a field is named by its path from MultiplyArgs: "a.leading_dimension".

#ifndef GEMMD_CLIENT_CPP_GEMMD_MULTIPLY_H_
#define GEMMD_CLIENT_CPP_GEMMD_MULTIPLY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gemmd/matrix.h"
#include "gemmd/types.h"

namespace gemm {

// What Multiply sends in one message, and takes in one, at most, where it has a choice.
inline constexpr uint64_t kOneMessageBytes = 32 << 20;

// An operand. Element (i, j) of stored matrix q is data[q * batch_stride + i * leading_dimension +
// j]. `data` may be longer than the layout needs; the rest is not sent.
template <typename T>
struct MatrixIn {
  std::span<const T> data;

  // op(X) is the transpose of what is stored. Not for c.
  bool transposed = false;

  // Elements from one stored row to the next; 0 is dense. Rows that are at least half of the extent
  // are sent with their padding and without a copy; sparser ones are packed first, one copy.
  int64_t leading_dimension = 0;

  // Elements from one matrix of the batch to the next. Unset is packed, rows * leading_dimension;
  // 0 is the same matrix for every product, sent once.
  std::optional<int64_t> batch_stride;

  // In place of data, if its name is set: rows of a matrix on the server, whose type is T and whose
  // columns are those of the stored matrix. leading_dimension is then 0, and batch_stride unset
  // (the matrices of the batch follow one another in the rows) or 0.
  MatrixRows matrix;
};

// Where D goes. May be the memory of a, b or c: then it is written once, after the whole reply is
// here, and not at all when the call fails. Elements between rows are left alone.
template <typename T>
struct MatrixOut {
  std::span<T> data;
  int64_t leading_dimension = 0;        // as in MatrixIn
  std::optional<int64_t> batch_stride;  // as in MatrixIn, but matrices may not overlap
};

// T is float or double. Operands that are the same memory (a times its own transpose) are sent
// once.
template <typename T>
struct MultiplyArgs {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixIn<T> a;
  MatrixIn<T> b;
  MatrixIn<T> c;  // neither looked at nor sent when beta is 0
  MatrixOut<T> d;
  double alpha = 1.0;
  double beta = 0.0;
  int64_t batch_count = 1;
  Precision precision = Precision::kStrict;

  // In place of d, which is then empty: D stays on the server, as a matrix of batch_count * m rows
  // and n columns, of any size. When there is one of this name, type and shape already, nothing is
  // computed and the call succeeds, so one name must stand for one result.
  std::optional<ResultMatrix> result;

  // For the server's log; at most 128 printable ASCII characters.
  std::string request_id;
};

struct MultiplyReport {
  std::string kernel;  // full name; empty when nothing had to run
  std::string device;  // for example "NVIDIA H200" or "cpu"
  int device_index = 0;
  uint32_t batch_problems = 0;  // requests that the server ran in the same batch, this one included

  // Wall time on the server, phase by phase, in the order they happen; of a product in panels the
  // sums over them, more than `wall` where they overlap.
  absl::Duration admit;
  absl::Duration receive;
  absl::Duration decode;
  absl::Duration queue;
  absl::Duration copy_in;
  absl::Duration compute;
  absl::Duration copy_out;

  std::optional<MatrixInfo> result;  // where MultiplyArgs::result was set

  // As the client saw it: the whole call, retries and the copy into d included. Within a batch
  // these are zero, since MultiplyBatchReport has them.
  absl::Duration wall;
  int attempts = 0;
  uint64_t request_bytes = 0;  // of one attempt
  uint64_t reply_bytes = 0;
};

// A product of a batch.
using AnyMultiplyArgs = std::variant<MultiplyArgs<float>, MultiplyArgs<double>>;

struct MultiplyBatchReport {
  // One for each product, in order. A product that failed leaves its D alone, and its error is the
  // one that Multiply would have returned.
  std::vector<absl::StatusOr<MultiplyReport>> products;

  absl::Duration wall;  // the whole call, retries and the copies into every d included
  int attempts = 0;
  uint64_t request_bytes = 0;  // of one attempt
  uint64_t reply_bytes = 0;
};

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_MULTIPLY_H_
