#include "client/cpp/internal/bulk_call.h"

#include "absl/memory/memory.h"
#include "client/cpp/internal/multiply_message.h"
#include "client/cpp/internal/rows_message.h"

namespace gemm::client {

template <typename Request>
absl::StatusOr<std::shared_ptr<BulkCall<Request>>> BulkCall<Request>::Create(
    const Connection& connection, const ClientOptions& options, Request request) {
  const std::shared_ptr<BulkCall> call = absl::WrapUnique(new BulkCall(std::move(request)));
  absl::StatusOr<grpc::ByteBuffer> message =
      Encode(call->request_, options.message_limit_bytes, call->memory_);
  if (!message.ok()) return message.status();
  call->request_bytes_ = message->Length();
  call->call_ = std::make_shared<UnaryCall>(connection, options, Request::kMethod, *message);
  return call;
}

template <typename Request>
void BulkCall<Request>::Start(absl::AnyInvocable<void()> over) {
  call_->Start([self = this->shared_from_this(), &outcome = outcome_, &memory = memory_,
                over = std::move(over)](UnaryCall::Outcome ended) mutable {
    outcome = std::move(ended);
    memory.WhenReturned(std::move(over));
  });
}

template <typename Request>
absl::StatusOr<typename BulkCall<Request>::Report> BulkCall<Request>::Finish() {
  if (!outcome_.reply.ok()) return outcome_.reply.status();
  absl::StatusOr<Report> report = Decode(*outcome_.reply, request_);
  if (!report.ok()) return report;
  if constexpr (requires { report->wall; }) {
    report->attempts = outcome_.attempts;
    report->request_bytes = request_bytes_;
    report->reply_bytes = outcome_.reply->Length();
    report->wall = absl::Now() - start_;
  }
  return report;
}

template class BulkCall<CheckedProduct>;
template class BulkCall<CheckedBatch>;
template class BulkCall<CheckedWrite>;
template class BulkCall<CheckedRead>;

}  // namespace gemm::client
