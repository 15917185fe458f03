#include "server/rpc/matrix_messages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/reason.h"
#include "server/rpc/decode.h"

namespace gemm {
namespace {

absl::Status Invalid(const std::string& field, const std::string& message) {
  return ErrorWithReason(Reason::kInvalidRequest, absl::StrCat(field, ": ", message), field);
}

uint64_t ToNs(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
}

v1::DataType MessageOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return v1::DATA_TYPE_F32;
    case DType::kF64:
      return v1::DATA_TYPE_F64;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

}  // namespace

v1::Matrix MessageOf(const MatrixState& state) {
  v1::Matrix matrix;
  matrix.set_name(state.name);
  matrix.set_data_type(MessageOf(state.spec.dtype));
  matrix.set_rows(state.spec.rows);
  matrix.set_columns(state.spec.columns);
  matrix.set_rows_written(state.rows_written);
  matrix.set_sealed(state.sealed);
  matrix.set_time_to_live_ns(ToNs(state.time_to_live));
  matrix.set_expires_in_ns(ToNs(state.expires_in));
  matrix.set_memory_bytes(state.memory_bytes);
  matrix.set_device_index(state.device);
  return matrix;
}

absl::StatusOr<MatrixSpec> DecodeSpec(const v1::CreateMatrixRequest& request) {
  const absl::StatusOr<DType> dtype = DecodeDataType(request.data_type(), "data_type");
  if (!dtype.ok()) return dtype.status();
  const MatrixSpec spec{*dtype, request.rows(), request.columns()};
  if (spec.rows < 0) return Invalid("rows", absl::StrCat(spec.rows, " must be at least 0"));
  if (spec.columns < 0) {
    return Invalid("columns", absl::StrCat(spec.columns, " must be at least 0"));
  }
  if (!IsValid(spec)) {
    return Invalid("rows",
                   absl::StrCat(spec.rows, " x ", spec.columns, " has more bytes than 2^62"));
  }
  return spec;
}

absl::Status CheckMatrixName(const std::string& name, const std::string& field) {
  if (IsMatrixName(name)) return absl::OkStatus();
  return Invalid(field, "must be 1 to 128 of A-Z a-z 0-9 . _ -");
}

absl::StatusOr<absl::Duration> DecodeTimeToLive(uint64_t time_to_live_ns, absl::Duration limit,
                                                const std::string& field) {
  if (time_to_live_ns > ToNs(limit)) {
    return Invalid(field, absl::StrCat(time_to_live_ns, " is over the limit of ", ToNs(limit),
                                       " (--matrix-ttl-limit)"));
  }
  return absl::Nanoseconds(static_cast<int64_t>(time_to_live_ns));
}

}  // namespace gemm
