#include "gemmd/client.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/internal/address.h"
#include "client/cpp/internal/backoff.h"
#include "client/cpp/internal/borrowed_memory.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/multiply_message.h"
#include "gemm/v1/gemm.pb.h"
#include "grpc/health/v1/health.pb.h"

namespace gemm {
namespace {

absl::Status CheckOptions(const ClientOptions& options) {
  if (options.timeout <= absl::ZeroDuration()) {
    return client::InvalidField(
        "timeout", absl::StrCat("is ", absl::FormatDuration(options.timeout), ", not more than 0"));
  }
  if (options.max_retries < 0) {
    return client::InvalidField("max_retries",
                                absl::StrCat("is ", options.max_retries, ", less than 0"));
  }
  if (options.backoff_initial < absl::ZeroDuration()) {
    return client::InvalidField("backoff_initial", "is less than 0");
  }
  if (options.backoff_limit < options.backoff_initial) {
    return client::InvalidField("backoff_limit", "is less than backoff_initial");
  }
  if (options.message_limit_bytes > INT32_MAX) {
    return client::InvalidField(
        "message_limit_bytes",
        absl::StrCat("is ", options.message_limit_bytes, ", more than ", INT32_MAX));
  }
  if (options.stall_timeout < absl::Milliseconds(1)) {
    return client::InvalidField("stall_timeout", "is less than 1 ms");
  }
  return client::CheckAddress(options.address);
}

// A call's last error, as its caller sees it.
absl::Status Final(const absl::Status& status, int attempts, absl::Duration elapsed) {
  if (attempts == 1) return status;
  return client::Reword(
      status, absl::StrCat(std::string(status.message()), " [", attempts, " attempts in ",
                           absl::FormatDuration(absl::Trunc(elapsed, absl::Milliseconds(1))), "]"));
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(const ClientOptions& options) : options_(options), connection_(options) {}

  absl::StatusOr<MultiplyReport> Multiply(const client::CheckedProduct& product);

  // A call of small protobuf messages.
  template <typename Reply>
  absl::StatusOr<Reply> CallMessage(const std::string& method,
                                    const google::protobuf::MessageLite& request) {
    const grpc::Slice slice(request.SerializeAsString());
    int attempts = 0;
    const absl::StatusOr<grpc::ByteBuffer> bytes =
        CallWithRetries(method, grpc::ByteBuffer(&slice, 1), attempts);
    if (!bytes.ok()) return bytes.status();
    grpc::Slice whole;
    Reply reply;
    if (!bytes->DumpToSingleSlice(&whole).ok() ||
        !reply.ParseFromArray(whole.begin(), static_cast<int>(whole.size()))) {
      return absl::InternalError(
          absl::StrCat("the server's reply to ", method, " cannot be parsed"));
    }
    return reply;
  }

 private:
  absl::StatusOr<grpc::ByteBuffer> CallWithRetries(const std::string& method,
                                                   const grpc::ByteBuffer& request, int& attempts);

  const ClientOptions options_;
  client::Connection connection_;
};

absl::StatusOr<grpc::ByteBuffer> Client::Impl::CallWithRetries(const std::string& method,
                                                               const grpc::ByteBuffer& request,
                                                               int& attempts) {
  const absl::Time start = absl::Now();
  const absl::Time deadline = start + options_.timeout;
  client::Backoff backoff(options_);
  for (attempts = 1;; ++attempts) {
    absl::StatusOr<grpc::ByteBuffer> reply = connection_.Call(method, request, deadline);
    if (reply.ok()) return reply;
    const std::optional<absl::Duration> wait =
        backoff.NextWait(reply.status(), deadline - absl::Now());
    if (!wait) return Final(reply.status(), attempts, absl::Now() - start);
    absl::SleepFor(*wait);
  }
}

absl::StatusOr<MultiplyReport> Client::Impl::Multiply(const client::CheckedProduct& product) {
  const absl::Time start = absl::Now();
  client::BorrowedMemory memory;
  absl::StatusOr<grpc::ByteBuffer> request =
      client::EncodeMultiply(product, options_.message_limit_bytes, memory);
  if (!request.ok()) return request.status();
  const uint64_t request_bytes = request->Length();

  int attempts = 0;
  const absl::StatusOr<grpc::ByteBuffer> reply =
      CallWithRetries("/gemm.v1.GemmService/Multiply", *request, attempts);
  request->Clear();
  memory.WaitForReturn();
  if (!reply.ok()) return reply.status();

  absl::StatusOr<MultiplyReport> report = client::DecodeMultiply(*reply, product);
  if (!report.ok()) return report;
  report->attempts = attempts;
  report->request_bytes = request_bytes;
  report->reply_bytes = reply->Length();
  report->wall = absl::Now() - start;
  return report;
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

absl::StatusOr<Client> Client::Connect(const ClientOptions& options) {
  if (const absl::Status status = CheckOptions(options); !status.ok()) return status;
  return Client(std::make_unique<Impl>(options));
}

template <typename T>
absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<T>& args) const {
  const absl::StatusOr<client::CheckedProduct> product = client::CheckProduct(args);
  if (!product.ok()) return product.status();
  return impl_->Multiply(*product);
}

template absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<float>&) const;
template absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<double>&) const;

absl::StatusOr<Explanation> Client::Explain(const ExplainArgs& args) const {
  const absl::StatusOr<v1::ExplainReply> reply =
      impl_->CallMessage<v1::ExplainReply>("/gemm.v1.GemmService/Explain", client::ToProto(args));
  if (!reply.ok()) return reply.status();
  return client::FromProto(*reply);
}

absl::StatusOr<ServerInfo> Client::GetServerInfo() const {
  const absl::StatusOr<v1::GetServerInfoReply> reply = impl_->CallMessage<v1::GetServerInfoReply>(
      "/gemm.v1.GemmService/GetServerInfo", v1::GetServerInfoRequest());
  if (!reply.ok()) return reply.status();
  return client::FromProto(*reply);
}

absl::StatusOr<HealthState> Client::CheckHealth(const std::string& service) const {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const absl::StatusOr<grpc::health::v1::HealthCheckResponse> reply =
      impl_->CallMessage<grpc::health::v1::HealthCheckResponse>("/grpc.health.v1.Health/Check",
                                                                request);
  if (!reply.ok()) return reply.status();
  switch (reply->status()) {
    case grpc::health::v1::HealthCheckResponse::SERVING:
      return HealthState::kServing;
    case grpc::health::v1::HealthCheckResponse::NOT_SERVING:
      return HealthState::kNotServing;
    default:
      return HealthState::kUnknown;
  }
}

}  // namespace gemm
