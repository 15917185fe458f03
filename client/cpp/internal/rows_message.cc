#include "client/cpp/internal/rows_message.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/bulk_parts.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "gemm/v1/gemm.pb.h"

namespace gemm::client {
namespace {

// Request is WriteRowsRequest or ReadRowsRequest.
template <typename Request>
std::string Describe(const MatrixRows& rows) {
  Request request;
  request.set_name(rows.name);
  request.set_row_begin(rows.row_begin);
  request.set_row_count(rows.row_count);
  return request.SerializeAsString();
}

// The server sees bytes: whether they were meant as its matrix's type can only be seen here.
absl::Status CheckType(const MatrixInfo& matrix, ElementType type, const char* what) {
  if (matrix.element_type == type) return absl::OkStatus();
  return InvalidField(
      "name", absl::StrCat("\"", matrix.name, "\" is a matrix of ",
                           matrix.element_type ? std::string(NameOf(*matrix.element_type))
                                               : std::string("a type unknown to this client"),
                           ", but ", what, " ", std::string(NameOf(type))));
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedWrite& write, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory) {
  const uint64_t bytes = write.source.dense_bytes();
  const std::string text = Describe<v1::WriteRowsRequest>(write.rows) + PayloadHeader(bytes);
  if (absl::Status size =
          CheckSize("request", "MESSAGE_TOO_LARGE", text.size() + bytes, message_limit_bytes);
      !size.ok()) {
    return size;
  }
  std::vector<grpc::Slice> slices = {grpc::Slice(text)};
  if (bytes > 0) {
    const bool dense = write.source.extent_bytes() == write.source.dense_bytes();
    slices.push_back(dense ? memory.Lend(write.source.data, bytes) : Pack(write.source));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedRead& read, uint64_t message_limit_bytes,
                                        BorrowedMemory& /*memory*/) {
  if (absl::Status size =
          CheckSize("result", "RESULT_TOO_LARGE", read.target.dense_bytes(), message_limit_bytes);
      !size.ok()) {
    return size;
  }
  const grpc::Slice slice(Describe<v1::ReadRowsRequest>(read.rows));
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<MatrixInfo> Decode(const grpc::ByteBuffer& bytes, const CheckedWrite& write) {
  const absl::StatusOr<BulkReply> reply = Split(bytes);
  if (!reply.ok()) return reply.status();
  v1::WriteRowsReply message;
  if (!message.ParseFromString(reply->index.description) || !message.has_matrix()) {
    return BadReply("it does not say which matrix it is about");
  }
  MatrixInfo matrix = FromProto(message.matrix());
  if (absl::Status type = CheckType(matrix, write.type, "was written as"); !type.ok()) return type;
  return matrix;
}

absl::StatusOr<MatrixInfo> Decode(const grpc::ByteBuffer& bytes, const CheckedRead& read) {
  const absl::StatusOr<BulkReply> reply = Split(bytes);
  if (!reply.ok()) return reply.status();
  v1::ReadRowsReply message;
  if (!message.ParseFromString(reply->index.description) || !message.has_matrix()) {
    return BadReply("it does not say which matrix it is about");
  }
  MatrixInfo matrix = FromProto(message.matrix());
  if (absl::Status type = CheckType(matrix, read.type, "was to be read as"); !type.ok()) {
    return type;
  }
  const std::vector<PayloadRange>& payloads = reply->index.payloads;
  if (payloads.size() != 1) {
    return BadReply(absl::StrCat("it holds ", payloads.size(), " payloads, instead of one"));
  }
  const auto wanted_bytes = static_cast<uint64_t>(read.target.dense_bytes());
  if (payloads[0].size_bytes != wanted_bytes) {
    return InvalidField("data", absl::StrCat("has ", wanted_bytes, " bytes, but the rows have ",
                                             payloads[0].size_bytes));
  }
  PayloadReader reader(reply->segments);
  if (wanted_bytes > 0) Unpack(reader, payloads[0], read.target);
  return matrix;
}

}  // namespace gemm::client
