// Matrices that stay on the server: what Client::Put, Get and the calls beneath them take and
// return. Plain values.
//
// A matrix is written once, then used as an operand as often as wanted; it is sealed when its last
// row is there, and from then on it never changes. One that nobody uses for its time to live is
// forgotten, and none outlives the server.

#ifndef GEMMD_CLIENT_CPP_GEMMD_MATRIX_H_
#define GEMMD_CLIENT_CPP_GEMMD_MATRIX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/time/time.h"
#include "gemmd/types.h"

namespace gemm {

// A matrix on the server, or rows of it.
struct MatrixRows {
  std::string name;
  int64_t row_begin = 0;
  int64_t row_count = 0;  // 0 is all from row_begin on
};

// The matrix that a product's result becomes.
struct ResultMatrix {
  std::string name;             // as in CreateMatrixArgs
  absl::Duration time_to_live;  // as in CreateMatrixArgs
};

struct CreateMatrixArgs {
  // 1 to 128 of A-Z a-z 0-9 . _ -, which no other matrix of yours has. Empty: the client makes a
  // random one, which MatrixInfo tells.
  std::string name;

  ElementType element_type = ElementType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;

  // How long it is kept without being used. Zero is the server's default; the most that may be
  // asked for is ServerInfo::time_to_live_limit.
  absl::Duration time_to_live;
};

// What the server says of a matrix.
struct MatrixInfo {
  std::string name;
  std::optional<ElementType> element_type;  // nothing where this client does not know it
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rows_written = 0;
  bool sealed = false;  // all rows are there
  absl::Duration time_to_live;
  absl::Duration expires_in;  // unless it is used before
  uint64_t memory_bytes = 0;  // on the device
  int device_index = 0;
};

// Called with the bytes of elements that are through and those of all, after each part of a
// transfer: on threads of the client's, but never twice at once. It must not throw.
using OnTransfer = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

// A matrix to be put on the server. T is float or double.
template <typename T>
struct PutArgs {
  std::string name;  // as in CreateMatrixArgs
  int64_t rows = 0;
  int64_t columns = 0;

  // Row-major; may be longer than the layout needs.
  std::span<const T> data;

  // Elements from one row to the next; 0 is dense. Others are packed on the way, one copy.
  int64_t leading_dimension = 0;

  absl::Duration time_to_live;  // as in CreateMatrixArgs

  // A matrix of this name, type and shape may be there already, in part or as a whole. Rows that
  // are there stay as they are, so they must be those of `data`. That completes an upload that was
  // interrupted. Without it MATRIX_EXISTS.
  bool exist_ok = false;

  OnTransfer on_transfer;
};

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_MATRIX_H_
