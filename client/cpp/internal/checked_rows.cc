#include "client/cpp/internal/checked_rows.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/matrix_name.h"

namespace gemm::client {
namespace {

absl::Status CheckRange(const MatrixRows& rows) {
  if (absl::Status status = CheckMatrixName("name", rows.name); !status.ok()) return status;
  if (rows.row_begin < 0) {
    return InvalidField("row_begin", absl::StrCat("is ", rows.row_begin, ", less than 0"));
  }
  if (rows.row_count < 0) {
    return InvalidField("row_count", absl::StrCat("is ", rows.row_count, ", less than 0"));
  }
  return absl::OkStatus();
}

// One row of everything: where the rows begin, the server knows.
MatrixBytes Dense(ElementSpan elements) {
  if (elements.size_bytes == 0) return {};
  return {.data = elements.data,
          .rows = 1,
          .row_bytes = elements.size_bytes,
          .row_stride_bytes = elements.size_bytes,
          .matrices = 1};
}

}  // namespace

absl::StatusOr<CheckedWrite> CheckWrite(const MatrixRows& rows, ElementSpan source) {
  if (absl::Status status = CheckRange(rows); !status.ok()) return status;
  return CheckedWrite{rows, Dense(source), source.type};
}

absl::StatusOr<CheckedRead> CheckRead(const MatrixRows& rows, ElementSpan target) {
  if (absl::Status status = CheckRange(rows); !status.ok()) return status;
  return CheckedRead{rows, Dense(target), target.type};
}

absl::Status CheckMatrixArgs(CreateMatrixArgs& args) {
  if (args.name.empty()) args.name = NewMatrixName();
  if (absl::Status status = CheckMatrixName("name", args.name); !status.ok()) return status;
  if (args.rows < 0) return InvalidField("rows", absl::StrCat("is ", args.rows, ", less than 0"));
  if (args.columns < 0) {
    return InvalidField("columns", absl::StrCat("is ", args.columns, ", less than 0"));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(args.rows, args.columns, &bytes) ||
      __builtin_mul_overflow(bytes, BytesOf(args.element_type), &bytes)) {
    return InvalidField("rows", "times columns is more than 64-bit sizes can count");
  }
  if (args.time_to_live < absl::ZeroDuration()) {
    return InvalidField("time_to_live", "is less than 0");
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckedPut> CheckPut(CreateMatrixArgs args, int64_t leading_dimension,
                                    ElementSpan source) {
  CheckedPut put;
  put.name_is_new = args.name.empty();
  if (absl::Status status = CheckMatrixArgs(args); !status.ok()) return status;
  if (leading_dimension != 0 && leading_dimension < args.columns) {
    return InvalidField("leading_dimension", absl::StrCat("is ", leading_dimension,
                                                          ", less than a row's ", args.columns));
  }
  const int64_t element_bytes = BytesOf(args.element_type);
  if (args.rows > 0 && args.columns > 0) {
    const int64_t ld = leading_dimension != 0 ? leading_dimension : args.columns;
    int64_t needed = 0;
    bool wrapped = __builtin_mul_overflow(args.rows - 1, ld, &needed);
    wrapped |= __builtin_add_overflow(needed, args.columns, &needed);
    wrapped |= __builtin_mul_overflow(needed, element_bytes, &needed);
    if (wrapped) {
      return InvalidField("leading_dimension", "makes a matrix larger than 64-bit sizes can count");
    }
    if (source.size_bytes < needed) {
      return InvalidField(
          "data", absl::StrCat("has ", source.size_bytes / element_bytes,
                               " elements, but its layout (", args.rows, " x ", args.columns,
                               ", rows ", ld, " apart) needs ", needed / element_bytes));
    }
    put.source = {.data = source.data,
                  .rows = args.rows,
                  .row_bytes = args.columns * element_bytes,
                  // With a single row the stride is never taken, and may be too large to count.
                  .row_stride_bytes = (args.rows > 1 ? ld : args.columns) * element_bytes,
                  .matrices = 1};
  }
  put.matrix = std::move(args);
  return put;
}

}  // namespace gemm::client
