#include "gemmd/client.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/address.h"
#include "client/cpp/internal/callback_thread.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/multiply_call.h"
#include "client/cpp/internal/polled_queue.h"
#include "client/cpp/internal/unary_call.h"
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

}  // namespace

class Client::Impl {
 public:
  explicit Impl(const ClientOptions& options) : options_(options), connection_(options) {}

  // Product is CheckedProduct or CheckedBatch.
  template <typename Product>
  absl::StatusOr<typename client::MultiplyCall<Product>::Report> Multiply(
      absl::StatusOr<Product> product) const {
    if (!product.ok()) return product.status();
    const auto call =
        client::MultiplyCall<Product>::Create(connection_, options_, *std::move(product));
    if (!call.ok()) return call.status();
    client::PolledQueue queue;
    std::atomic<bool> over = false;
    (*call)->unary_call()->PollOn(queue);
    (*call)->Start([&over] { over = true; });
    queue.RunUntil([&over] { return over.load(); });
    return (*call)->Finish();
  }

  template <typename Product, typename Callback>
  PendingCall MultiplyAsync(absl::StatusOr<Product> product, Callback callback) {
    callbacks_.Announce();
    const auto refuse = [&](const absl::Status& status) {
      callbacks_.Post([status, callback = std::move(callback)]() mutable { callback(status); });
      return PendingCall();
    };
    if (!product.ok()) return refuse(product.status());
    const auto call =
        client::MultiplyCall<Product>::Create(connection_, options_, *std::move(product));
    if (!call.ok()) return refuse(call.status());
    (*call)->Start([this, call = *call, callback = std::move(callback)]() mutable {
      callbacks_.Post([call = std::move(call), callback = std::move(callback)]() mutable {
        callback(call->Finish());
      });
    });
    return PendingCall((*call)->unary_call());
  }

  // A call of small protobuf messages.
  template <typename Reply>
  absl::StatusOr<Reply> CallMessage(const std::string& method,
                                    const google::protobuf::MessageLite& request) const {
    const grpc::Slice slice(request.SerializeAsString());
    const auto call = std::make_shared<client::UnaryCall>(connection_, options_, method,
                                                          grpc::ByteBuffer(&slice, 1));
    client::PolledQueue queue;
    bool over = false;
    absl::StatusOr<grpc::ByteBuffer> bytes;
    call->PollOn(queue);
    call->Start([&](client::UnaryCall::Outcome outcome) {
      bytes = std::move(outcome.reply);
      over = true;
    });
    queue.RunUntil([&over] { return over; });
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
  const ClientOptions options_;
  const client::Connection connection_;
  client::CallbackThread callbacks_;  // the last: its end waits for calls, which use the others
};

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
  return impl_->Multiply(client::CheckProduct(args));
}

template absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<float>&) const;
template absl::StatusOr<MultiplyReport> Client::Multiply(const MultiplyArgs<double>&) const;

template <typename T>
PendingCall Client::MultiplyAsync(const MultiplyArgs<T>& args, MultiplyCallback callback) const {
  return impl_->MultiplyAsync(client::CheckProduct(args), std::move(callback));
}

template PendingCall Client::MultiplyAsync(const MultiplyArgs<float>&, MultiplyCallback) const;
template PendingCall Client::MultiplyAsync(const MultiplyArgs<double>&, MultiplyCallback) const;

absl::StatusOr<MultiplyBatchReport> Client::MultiplyBatch(std::span<const AnyMultiplyArgs> products,
                                                          const std::string& request_id) const {
  return impl_->Multiply(client::CheckBatch(products, request_id));
}

PendingCall Client::MultiplyBatchAsync(std::span<const AnyMultiplyArgs> products,
                                       MultiplyBatchCallback callback,
                                       const std::string& request_id) const {
  return impl_->MultiplyAsync(client::CheckBatch(products, request_id), std::move(callback));
}

void PendingCall::Cancel() const {
  if (call_ != nullptr) call_->Cancel();
}

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
