#include "client/cpp/internal/multiply_call.h"

#include "absl/memory/memory.h"
#include "client/cpp/internal/multiply_message.h"

namespace gemm::client {
namespace {

constexpr const char* MethodOf(const CheckedProduct* /*product*/) {
  return "/gemm.v1.GemmService/Multiply";
}
constexpr const char* MethodOf(const CheckedBatch* /*batch*/) {
  return "/gemm.v1.GemmService/MultiplyBatch";
}

}  // namespace

template <typename Product>
absl::StatusOr<std::shared_ptr<MultiplyCall<Product>>> MultiplyCall<Product>::Create(
    const Connection& connection, const ClientOptions& options, Product product) {
  const std::shared_ptr<MultiplyCall> call = absl::WrapUnique(new MultiplyCall(std::move(product)));
  absl::StatusOr<grpc::ByteBuffer> request =
      Encode(call->product_, options.message_limit_bytes, call->memory_);
  if (!request.ok()) return request.status();
  call->request_bytes_ = request->Length();
  call->call_ =
      std::make_shared<UnaryCall>(connection, options, MethodOf(&call->product_), *request);
  return call;
}

template <typename Product>
void MultiplyCall<Product>::Start(absl::AnyInvocable<void()> over) {
  call_->Start([self = this->shared_from_this(), &outcome = outcome_, &memory = memory_,
                over = std::move(over)](UnaryCall::Outcome ended) mutable {
    outcome = std::move(ended);
    memory.WhenReturned(std::move(over));
  });
}

template <typename Product>
absl::StatusOr<typename MultiplyCall<Product>::Report> MultiplyCall<Product>::Finish() {
  if (!outcome_.reply.ok()) return outcome_.reply.status();
  absl::StatusOr<Report> report = Decode(*outcome_.reply, product_);
  if (!report.ok()) return report;
  report->attempts = outcome_.attempts;
  report->request_bytes = request_bytes_;
  report->reply_bytes = outcome_.reply->Length();
  report->wall = absl::Now() - start_;
  return report;
}

template class MultiplyCall<CheckedProduct>;
template class MultiplyCall<CheckedBatch>;

}  // namespace gemm::client
