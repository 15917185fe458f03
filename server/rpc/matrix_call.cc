#include "server/rpc/matrix_call.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gemm/v1/gemm.pb.h"
#include "server/engine/clock.h"
#include "server/reason.h"
#include "server/rpc/buffer_slice.h"
#include "server/rpc/matrix_messages.h"
#include "server/telemetry/logging.h"

namespace gemm {
namespace {

constexpr std::array<MatrixMethod, 6> kMethods = {{
    {RpcMethod::kCreateMatrix, "CreateMatrix", false},
    {RpcMethod::kWriteRows, "WriteRows", true},
    {RpcMethod::kReadRows, "ReadRows", false},
    {RpcMethod::kGetMatrix, "GetMatrix", false},
    {RpcMethod::kListMatrices, "ListMatrices", false},
    {RpcMethod::kDeleteMatrix, "DeleteMatrix", false},
}};

absl::Status Invalid(const std::string& field, const std::string& message) {
  return ErrorWithReason(Reason::kInvalidRequest, absl::StrCat(field, ": ", message), field);
}

template <typename Request>
absl::StatusOr<Request> Parse(grpc::ByteBuffer& message) {
  Request request;
  grpc::ProtoBufferReader reader(&message);
  if (request.ParseFromZeroCopyStream(&reader)) return request;
  return ErrorWithReason(Reason::kInvalidRequest,
                         absl::StrCat("request: not a valid ", request.GetTypeName()));
}

grpc::ByteBuffer Bytes(const google::protobuf::MessageLite& reply) {
  const grpc::Slice slice(reply.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

template <typename Reply>
grpc::ByteBuffer BytesWith(const MatrixState& state) {
  Reply reply;
  *reply.mutable_matrix() = MessageOf(state);
  return Bytes(reply);
}

}  // namespace

const MatrixMethod* FindMatrixMethod(std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [name](const auto& method) { return method.name == name; });
  return found == kMethods.end() ? nullptr : &*found;
}

MatrixCall::MatrixCall(RpcContext& context, CallStream& stream, const MatrixMethod& method)
    : Call(context, stream, method.method,
           method.carries_rows ? context.product_admission : context.control_admission,
           method.carries_rows ? context.options.message_limit_bytes : kControlMessageBytes),
      method_(method),
      place_(context.products_in_flight, context.refusing) {}

// On the executor: each may allocate, free or copy much.
void MatrixCall::OnMessage() {
  context().executor.Post([this] { Run(); });
}

void MatrixCall::Run() {
  absl::StatusOr<grpc::ByteBuffer> reply = Answer();
  ReleaseMessage();
  Log(reply.status());
  if (!reply.ok()) return Fail(reply.status());
  Reply(*reply);
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::Answer() {
  switch (method_.method) {
    case RpcMethod::kCreateMatrix:
      return Create();
    case RpcMethod::kWriteRows:
      return WriteRows();
    case RpcMethod::kReadRows:
      return ReadRows();
    case RpcMethod::kGetMatrix:
      return Get();
    case RpcMethod::kListMatrices:
      return List();
    default:
      return Delete();
  }
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::Create() {
  const auto request = Parse<v1::CreateMatrixRequest>(message());
  if (!request.ok()) return request.status();
  if (!request->name().empty()) {
    if (absl::Status status = CheckMatrixName(request->name(), "name"); !status.ok()) return status;
    matrix_ = request->name();
  }
  const absl::StatusOr<MatrixSpec> spec = DecodeSpec(*request);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<absl::Duration> time_to_live = DecodeTimeToLive(
      request->time_to_live_ns(), context().options.matrix_ttl_limit, "time_to_live_ns");
  if (!time_to_live.ok()) return time_to_live.status();
  const absl::StatusOr<MatrixState> state =
      context().matrices.Create(kOwner, request->name(), *spec, *time_to_live);
  if (!state.ok()) return state.status();
  matrix_ = state->name;
  return BytesWith<v1::CreateMatrixReply>(*state);
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::WriteRows() {
  const MessageSlices slices(message());
  absl::StatusOr<BulkIndex> index = IndexBulkMessage(slices.segments(), BulkLimits());
  if (!index.ok()) {
    return ErrorWithReason(Reason::kInvalidRequest, std::string(index.status().message()));
  }
  v1::WriteRowsRequest request;
  if (!request.ParseFromString(index->description)) {
    return ErrorWithReason(Reason::kInvalidRequest,
                           "request: not a valid gemm.v1.WriteRowsRequest");
  }
  if (absl::Status status = CheckMatrixName(request.name(), "name"); !status.ok()) return status;
  matrix_ = request.name();
  if (index->payloads.size() != 1) {
    return Invalid("payloads",
                   absl::StrCat("must be one entry, the rows; there are ", index->payloads.size()));
  }
  absl::StatusOr<MatrixWrite> write = context().matrices.BeginWrite(
      kOwner, request.name(), request.row_begin(), request.row_count());
  if (!write.ok()) return write.status();
  const DeviceMatrix& matrix = *write->matrix();
  const PayloadRange payload = index->payloads.front();
  const uint64_t needed_bytes = matrix.row_bytes() * static_cast<uint64_t>(write->rows().count());
  if (payload.size_bytes != needed_bytes) {
    return Invalid(
        "payloads[0]",
        absl::StrCat("has ", payload.size_bytes, " bytes, but ", write->rows().count(), " rows of ",
                     matrix.spec().columns, " elements have ", needed_bytes));
  }

  const absl::Time start = SteadyNow();
  PayloadReader reader(slices.segments());
  uint64_t copied_bytes = 0;
  for (const RowRange& rows : write->missing()) {
    const auto before = static_cast<uint64_t>(rows.begin - write->rows().begin);
    uint64_t at = payload.offset_bytes + before * matrix.row_bytes();
    const auto next = [&](std::byte* to, size_t bytes) {
      reader.Copy({at, bytes}, to);
      at += bytes;
      copied_bytes += bytes;
    };
    absl::Status status = context().engine.WriteRows(matrix, rows, next);
    if (!status.ok()) return status;
  }
  copy_ = SteadyNow() - start;
  Metrics& metrics = context().metrics;
  metrics.ObservePhase(Phase::kAdmit, admit_duration());
  metrics.ObservePhase(Phase::kReceive, receive_duration());
  metrics.ObservePhase(Phase::kCopyIn, copy_);
  metrics.AddBytes(Direction::kIn, copied_bytes);
  const absl::StatusOr<MatrixState> state = write->Commit();
  if (!state.ok()) return state.status();
  return BytesWith<v1::WriteRowsReply>(*state);
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::ReadRows() {
  const auto request = Parse<v1::ReadRowsRequest>(message());
  if (!request.ok()) return request.status();
  if (absl::Status status = CheckMatrixName(request->name(), "name"); !status.ok()) return status;
  matrix_ = request->name();
  const absl::StatusOr<MatrixState> state = context().matrices.Get(kOwner, request->name());
  if (!state.ok()) return state.status();
  const auto matrix = context().matrices.Use(kOwner, request->name());
  if (!matrix.ok()) return matrix.status();
  const absl::StatusOr<RowRange> rows =
      ResolveRows((*matrix)->spec(), request->row_begin(), request->row_count(), "");
  if (!rows.ok()) return rows.status();
  // Within 2^62, as the whole matrix.
  const uint64_t bytes = (*matrix)->row_bytes() * static_cast<uint64_t>(rows->count());
  const uint64_t limit = context().options.message_limit_bytes;
  if (bytes > limit) {
    return ErrorWithReason(Reason::kResultTooLarge,
                           absl::StrCat("row_count: ", rows->count(), " rows have ", bytes,
                                        " bytes, over the limit of ", limit,
                                        " for a reply (--message-limit): read fewer at once"),
                           "row_count");
  }
  absl::StatusOr<HostBuffer> buffer = context().engine.AllocateHost(bytes);
  if (!buffer.ok()) return buffer.status();
  if (bytes > 0) {
    const absl::Time start = SteadyNow();
    absl::Status status = context().engine.ReadRows(**matrix, *rows, buffer->data());
    if (!status.ok()) return status;
    copy_ = SteadyNow() - start;
    context().metrics.ObservePhase(Phase::kCopyOut, copy_);
    context().metrics.AddBytes(Direction::kOut, bytes);
  }
  v1::ReadRowsReply reply;
  *reply.mutable_matrix() = MessageOf(*state);
  const grpc::Slice description(reply.SerializeAsString() + PayloadHeader(bytes));
  if (bytes == 0) return grpc::ByteBuffer(&description, 1);
  const grpc::Slice parts[] = {description, SliceOver(*std::move(buffer))};
  return grpc::ByteBuffer(parts, 2);
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::Get() {
  const auto request = Parse<v1::GetMatrixRequest>(message());
  if (!request.ok()) return request.status();
  if (absl::Status status = CheckMatrixName(request->name(), "name"); !status.ok()) return status;
  matrix_ = request->name();
  const absl::StatusOr<MatrixState> state = context().matrices.Get(kOwner, request->name());
  if (!state.ok()) return state.status();
  return BytesWith<v1::GetMatrixReply>(*state);
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::List() {
  const auto request = Parse<v1::ListMatricesRequest>(message());
  if (!request.ok()) return request.status();
  if (request->page_size() < 0) {
    return Invalid("page_size", absl::StrCat(request->page_size(), " must be at least 0"));
  }
  if (!request->page_token().empty() && !IsMatrixName(request->page_token())) {
    return Invalid("page_token", "is not one that this server has given");
  }
  const int asked = request->page_size() == 0 ? kListPage : request->page_size();
  const MatrixStore::Page page = context().matrices.List(
      kOwner, request->page_token(), static_cast<size_t>(std::min(asked, kListPage)));
  v1::ListMatricesReply reply;
  for (const MatrixState& state : page.matrices) *reply.add_matrices() = MessageOf(state);
  if (page.more) reply.set_next_page_token(page.matrices.back().name);
  return Bytes(reply);
}

absl::StatusOr<grpc::ByteBuffer> MatrixCall::Delete() {
  const auto request = Parse<v1::DeleteMatrixRequest>(message());
  if (!request.ok()) return request.status();
  if (absl::Status status = CheckMatrixName(request->name(), "name"); !status.ok()) return status;
  matrix_ = request->name();
  if (absl::Status status = context().matrices.Delete(kOwner, request->name()); !status.ok()) {
    return status;
  }
  return Bytes(v1::DeleteMatrixReply());
}

void MatrixCall::Log(const absl::Status& status) const {
  Call::Log(status, [this](CallRecord& record) {
    record.matrix = matrix_;
    const Phase copy = method_.carries_rows ? Phase::kCopyIn : Phase::kCopyOut;
    record.phases[static_cast<int>(copy)] = copy_;
  });
}

}  // namespace gemm
