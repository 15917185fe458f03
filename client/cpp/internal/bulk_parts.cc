#include "client/cpp/internal/bulk_parts.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/error.h"

namespace gemm::client {

absl::Status CheckSize(const char* what, const char* reason, uint64_t bytes, uint64_t limit_bytes) {
  if (bytes <= limit_bytes) return absl::OkStatus();
  return ErrorWithReason(absl::StatusCode::kResourceExhausted, reason,
                         absl::StrCat("the ", what, " would be ", bytes,
                                      " bytes, over the message limit of ", limit_bytes));
}

grpc::Slice Pack(const MatrixBytes& matrix) {
  auto packed = std::make_unique_for_overwrite<std::byte[]>(matrix.dense_bytes());
  std::byte* out = packed.get();
  for (int64_t q = 0; q < matrix.matrices; ++q) {
    const std::byte* row = matrix.data + q * matrix.matrix_stride_bytes;
    for (int64_t i = 0; i < matrix.rows; ++i) {
      std::memcpy(out, row + i * matrix.row_stride_bytes, matrix.row_bytes);
      out += matrix.row_bytes;
    }
  }
  std::byte* const data = packed.release();
  return grpc::Slice(
      data, matrix.dense_bytes(), [](void* bytes) { delete[] static_cast<std::byte*>(bytes); },
      data);
}

absl::Status BadReply(const std::string& fault) {
  return absl::InternalError(absl::StrCat("the server's reply cannot be used: ", fault));
}

absl::StatusOr<BulkReply> Split(const grpc::ByteBuffer& bytes, const BulkLimits& limits) {
  BulkReply reply;
  if (!bytes.Valid() || !bytes.Dump(&reply.slices).ok()) {
    return BadReply("it is empty or compressed");
  }
  reply.segments.reserve(reply.slices.size());
  for (const grpc::Slice& slice : reply.slices) {
    reply.segments.push_back({slice.begin(), slice.size()});
  }
  absl::StatusOr<BulkIndex> index = IndexBulkMessage(reply.segments, limits);
  if (!index.ok()) return BadReply(std::string(index.status().message()));
  reply.index = *std::move(index);
  return reply;
}

void Unpack(PayloadReader& reader, PayloadRange range, const MatrixBytes& matrix) {
  if (matrix.extent_bytes() == matrix.dense_bytes()) {
    reader.Copy(range, matrix.data);
    return;
  }
  range.size_bytes = matrix.row_bytes;
  for (int64_t q = 0; q < matrix.matrices; ++q) {
    std::byte* row = matrix.data + q * matrix.matrix_stride_bytes;
    for (int64_t i = 0; i < matrix.rows; ++i) {
      reader.Copy(range, row + i * matrix.row_stride_bytes);
      range.offset_bytes += matrix.row_bytes;
    }
  }
}

}  // namespace gemm::client
