#include "server/rpc/call.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/engine/clock.h"
#include "server/reason.h"
#include "server/rpc/error_status.h"

namespace gemm {
namespace {

// Our clients say here how long their message is, so that small calls are not counted as large.
constexpr char kRequestBytesKey[] = "gemmd-request-bytes";

// version-traceid-parentid-flags in lower-case hex, as W3C Trace Context has it for version 00.
bool IsTraceparent(const std::string& text) {
  constexpr std::string_view kForm = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == '-' ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsRefusal(Reason reason) {
  switch (reason) {
    case Reason::kDeadlinePassed:
    case Reason::kCallerGone:
    case Reason::kDeviceFailed:
    case Reason::kDeviceLost:
      return false;
    default:
      return true;
  }
}

}  // namespace

MessageSlices::MessageSlices(grpc::ByteBuffer& message) {
  message.Dump(&slices_);  // references, no copy
  segments_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) segments_.push_back({slice.begin(), slice.size()});
}

Call::Call(RpcContext& context, CallStream& stream, RpcMethod method, Admission& admission,
           uint64_t message_limit_bytes)
    : context_(context),
      stream_(stream),
      admission_(admission),
      message_limit_bytes_(message_limit_bytes),
      method_(method),
      started_(SteadyNow()),
      deadline_(started_ +
                absl::FromChrono(stream.context().deadline() - std::chrono::system_clock::now())) {
  context_.metrics.CallStarted(method_);
}

absl::StatusOr<uint64_t> Call::BytesToAdmit() const {
  const auto& metadata = stream_.context().client_metadata();
  const auto entry = metadata.find(kRequestBytesKey);
  if (entry == metadata.end()) return message_limit_bytes_;
  uint64_t announced_bytes = 0;
  if (!absl::SimpleAtoi(absl::string_view(entry->second.data(), entry->second.size()),
                        &announced_bytes)) {
    return ErrorWithReason(Reason::kInvalidRequest,
                           absl::StrCat("metadata ", kRequestBytesKey, ": not a number of bytes"),
                           kRequestBytesKey);
  }
  if (announced_bytes > message_limit_bytes_) {
    return ErrorWithReason(
        Reason::kMessageTooLarge,
        absl::StrCat("the request has ", announced_bytes, " bytes, over the limit of ",
                     message_limit_bytes_, " for a message (--message-limit)"));
  }
  return announced_bytes;
}

std::string Call::traceparent() const {
  const auto& metadata = stream_.context().client_metadata();
  const auto entry = metadata.find("traceparent");
  if (entry == metadata.end()) return {};
  const std::string text(entry->second.data(), entry->second.size());
  return IsTraceparent(text) ? text : std::string();
}

void Call::Open(const InFlightPlace& place) {
  if (!place.refused()) return Open();
  FailEarly(ErrorWithReason(Reason::kDraining, "the server is shutting down"));
}

void Call::Open() {
  const absl::StatusOr<uint64_t> bytes = BytesToAdmit();
  if (!bytes.ok()) return FailEarly(bytes.status());
  switch (admission_.Request(*bytes, &ticket_, [this, bytes = *bytes] { StartReading(bytes); })) {
    case Admission::Verdict::kAdmitted:
      return StartReading(*bytes);
    case Admission::Verdict::kWaiting:
      return;
    case Admission::Verdict::kRefused:
      return FailEarly(ErrorWithReason(
          Reason::kQueueFull, "too many calls wait to send their message (--admission-line)"));
  }
}

void Call::StartReading(uint64_t charged_bytes) {
  charged_bytes_ = charged_bytes;
  reading_since_ = SteadyNow();
  admit_ = reading_since_ - started_;
  // The call may be gone as soon as it reads.
  Receiving& receiving = context_.receiving;
  const Receiving::Ticket ticket =
      receiving.Add(charged_bytes, [this](const absl::Status& status) { FailEarly(status); });
  receiving_ = ticket;
  stream_.Read(&message_);
  receiving.Arm(ticket);
}

void Call::OnReadDone(bool ok) {
  if (!context_.receiving.Remove(receiving_)) return;  // given up, which is the end of the call
  if (!ok) {
    // Over gRPC's message limit (the caller gets gRPC's own error), cancelled, or half-closed
    // early.
    return FailEarly(
        ErrorWithReason(Reason::kInvalidRequest, "the call carried no request message"));
  }
  receive_ = SteadyNow() - reading_since_;
  const uint64_t message_bytes = message_.Length();
  if (message_bytes > charged_bytes_) {
    return FailEarly(
        ErrorWithReason(Reason::kInvalidRequest,
                        absl::StrCat("the request has ", message_bytes, " bytes, but announced ",
                                     charged_bytes_, " in metadata ", kRequestBytesKey),
                        kRequestBytesKey));
  }
  admission_.Release(charged_bytes_ - message_bytes);
  charged_bytes_ = message_bytes;
  OnMessage();
}

void Call::OnCancel() {
  if (ticket_ != 0 && admission_.Cancel(ticket_)) {
    return FailEarly(ErrorWithReason(Reason::kCallerGone, "the caller has gone"));
  }
  OnCallerGone();
}

bool Call::ParseMessage(google::protobuf::MessageLite& request) {
  grpc::ProtoBufferReader reader(&message_);
  if (request.ParseFromZeroCopyStream(&reader)) return true;
  FailEarly(ErrorWithReason(Reason::kInvalidRequest,
                            absl::StrCat("request: not a valid ", request.GetTypeName())));
  return false;
}

void Call::ReleaseMessage() {
  message_.Clear();
  admission_.Release(std::exchange(charged_bytes_, 0));
}

void Call::Reply(const grpc::ByteBuffer& reply) {
  CountHandled(absl::OkStatus());
  replied_at_ = SteadyNow();
  stream_.WriteAndFinish(reply);
}

void Call::Reply(const google::protobuf::MessageLite& reply) {
  grpc::Slice slice(reply.SerializeAsString());
  Reply(grpc::ByteBuffer(&slice, 1));
}

void Call::Fail(const absl::Status& status) {
  CountHandled(status);
  stream_.Finish(ToGrpcStatus(status));
}

void Call::FailEarly(const absl::Status& status) {
  Log(status, [](CallRecord&) {});
  Fail(status);
}

void Call::Log(const absl::Status& status, absl::FunctionRef<void(CallRecord&)> fill) const {
  const absl::Duration total = SteadyNow() - started_;
  if (!CallIsLogged(static_cast<int>(status.code()), total)) return;
  CallRecord record;
  const std::string caller = peer();
  const std::string trace = traceparent();
  record.method = NameOf(method_);
  record.peer = caller;
  record.traceparent = trace;
  record.phases[static_cast<int>(Phase::kAdmit)] = admit_;
  record.phases[static_cast<int>(Phase::kReceive)] = receive_;
  fill(record);
  record.total = total;
  record.grpc_code = static_cast<int>(status.code());
  record.message = std::string_view(status.message().data(), status.message().size());
  LogCall(record);
}

void Call::CountHandled(const absl::Status& status) {
  context_.metrics.CallHandled(method_, static_cast<int>(status.code()), SteadyNow() - started_);
  if (const std::optional<Reason> reason = ReasonOf(status); reason && IsRefusal(*reason)) {
    context_.metrics.CountRefused(*reason);
  }
}

void Call::OnDone() {
  ReleaseMessage();
  if (replied_at_ != absl::InfiniteFuture()) {
    context_.metrics.ObservePhase(Phase::kSend, SteadyNow() - replied_at_);
  }
  delete this;
}

}  // namespace gemm
