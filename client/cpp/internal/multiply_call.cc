#include "client/cpp/internal/multiply_call.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "client/cpp/internal/multiply_message.h"

namespace gemm::client {

absl::StatusOr<std::shared_ptr<MultiplyCall>> MultiplyCall::Create(const Connection& connection,
                                                                   const ClientOptions& options,
                                                                   const CheckedProduct& product) {
  const std::shared_ptr<MultiplyCall> call = absl::WrapUnique(new MultiplyCall(product));
  absl::StatusOr<grpc::ByteBuffer> request =
      EncodeMultiply(call->product_, options.message_limit_bytes, call->memory_);
  if (!request.ok()) return request.status();
  call->request_bytes_ = request->Length();
  call->call_ =
      std::make_shared<UnaryCall>(connection, options, "/gemm.v1.GemmService/Multiply", *request);
  return call;
}

void MultiplyCall::Start(absl::AnyInvocable<void()> over) {
  call_->Start(
      [self = shared_from_this(), over = std::move(over)](UnaryCall::Outcome outcome) mutable {
        self->outcome_ = std::move(outcome);
        self->memory_.WhenReturned(std::move(over));
      });
}

absl::StatusOr<MultiplyReport> MultiplyCall::Finish() {
  if (!outcome_.reply.ok()) return outcome_.reply.status();
  absl::StatusOr<MultiplyReport> report = DecodeMultiply(*outcome_.reply, product_);
  if (!report.ok()) return report;
  report->attempts = outcome_.attempts;
  report->request_bytes = request_bytes_;
  report->reply_bytes = outcome_.reply->Length();
  report->wall = absl::Now() - start_;
  return report;
}

}  // namespace gemm::client
