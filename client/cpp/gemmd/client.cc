#include "gemmd/client.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/address.h"
#include "client/cpp/internal/blocking_calls.h"
#include "client/cpp/internal/bulk_call.h"
#include "client/cpp/internal/callback_thread.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/checked_rows.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/large_product.h"
#include "client/cpp/internal/matrices.h"
#include "client/cpp/internal/panels.h"
#include "client/cpp/internal/unary_call.h"
#include "gemm/v1/gemm.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "proto/limits.h"

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
  if (options.message_limit_bytes > kMaxMessageBytes) {
    return client::InvalidField(
        "message_limit_bytes",
        absl::StrCat("is ", options.message_limit_bytes, ", more than ", kMaxMessageBytes));
  }
  if (options.channels < 1) {
    return client::InvalidField("channels", absl::StrCat("is ", options.channels, ", less than 1"));
  }
  if (options.stall_timeout < absl::Milliseconds(1)) {
    return client::InvalidField("stall_timeout", "is less than 1 ms");
  }
  return client::CheckAddress(options.address);
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(const ClientOptions& options)
      : options_(options),
        connection_(options),
        calls_(options),
        panels_(options, connection_, calls_),
        matrices_(options.address, connection_, calls_, panels_),
        large_products_(connection_, calls_, matrices_, panels_) {}

  // Request is as for client::BulkCall.
  template <typename Request>
  absl::StatusOr<typename Request::Report> Call(absl::StatusOr<Request> request) {
    if (!request.ok()) return request.status();
    return calls_.Call(connection_, *std::move(request));
  }

  absl::StatusOr<MultiplyReport> Multiply(absl::StatusOr<client::CheckedProduct> product) {
    if (!product.ok()) return product.status();
    if (client::GoesByPanels(*product)) return large_products_.Multiply(*product);
    absl::StatusOr<MultiplyReport> report = calls_.Call(connection_, *product);
    const bool for_the_server = client::IsTooLarge(report.status()) &&
                                client::MessageBytes(*product) <= options_.message_limit_bytes;
    if (!for_the_server || !client::CanGoByPanels(*product)) return report;
    return large_products_.Multiply(*product);
  }

  template <typename Request, typename Callback>
  PendingCall CallAsync(absl::StatusOr<Request> request, Callback callback) {
    callbacks_.Announce();
    const auto refuse = [&](const absl::Status& status) {
      callbacks_.Post([status, callback = std::move(callback)]() mutable { callback(status); });
      return PendingCall();
    };
    if (!request.ok()) return refuse(request.status());
    const auto call = client::BulkCall<Request>::Create(connection_, options_, *std::move(request));
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
                                    const google::protobuf::MessageLite& request) {
    return calls_.CallMessage<Reply>(connection_, method, request);
  }

  client::Matrices& matrices() { return matrices_; }
  void CancelCalls() { calls_.Cancel(); }

 private:
  const ClientOptions options_;
  const client::Connection connection_;
  client::BlockingCalls calls_;
  client::Panels panels_;
  client::Matrices matrices_;
  client::LargeProducts large_products_;
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
  return impl_->CallAsync(client::CheckProduct(args), std::move(callback));
}

template PendingCall Client::MultiplyAsync(const MultiplyArgs<float>&, MultiplyCallback) const;
template PendingCall Client::MultiplyAsync(const MultiplyArgs<double>&, MultiplyCallback) const;

absl::StatusOr<MultiplyBatchReport> Client::MultiplyBatch(std::span<const AnyMultiplyArgs> products,
                                                          const std::string& request_id) const {
  return impl_->Call(client::CheckBatch(products, request_id));
}

PendingCall Client::MultiplyBatchAsync(std::span<const AnyMultiplyArgs> products,
                                       MultiplyBatchCallback callback,
                                       const std::string& request_id) const {
  return impl_->CallAsync(client::CheckBatch(products, request_id), std::move(callback));
}

absl::StatusOr<MatrixInfo> Client::CreateMatrix(const CreateMatrixArgs& args) const {
  return impl_->matrices().Create(args);
}

template <typename T>
absl::StatusOr<MatrixInfo> Client::WriteRows(const MatrixRows& rows,
                                             std::span<const T> data) const {
  return impl_->Call(client::CheckWrite(rows, client::ElementSpan(data)));
}

template absl::StatusOr<MatrixInfo> Client::WriteRows(const MatrixRows&,
                                                      std::span<const float>) const;
template absl::StatusOr<MatrixInfo> Client::WriteRows(const MatrixRows&,
                                                      std::span<const double>) const;

template <typename T>
PendingCall Client::WriteRowsAsync(const MatrixRows& rows, std::span<const T> data,
                                   MatrixCallback callback) const {
  return impl_->CallAsync(client::CheckWrite(rows, client::ElementSpan(data)), std::move(callback));
}

template PendingCall Client::WriteRowsAsync(const MatrixRows&, std::span<const float>,
                                            MatrixCallback) const;
template PendingCall Client::WriteRowsAsync(const MatrixRows&, std::span<const double>,
                                            MatrixCallback) const;

template <typename T>
absl::StatusOr<MatrixInfo> Client::ReadRows(const MatrixRows& rows, std::span<T> data) const {
  return impl_->Call(client::CheckRead(rows, client::ElementSpan(data)));
}

template absl::StatusOr<MatrixInfo> Client::ReadRows(const MatrixRows&, std::span<float>) const;
template absl::StatusOr<MatrixInfo> Client::ReadRows(const MatrixRows&, std::span<double>) const;

template <typename T>
PendingCall Client::ReadRowsAsync(const MatrixRows& rows, std::span<T> data,
                                  MatrixCallback callback) const {
  return impl_->CallAsync(client::CheckRead(rows, client::ElementSpan(data)), std::move(callback));
}

template PendingCall Client::ReadRowsAsync(const MatrixRows&, std::span<float>,
                                           MatrixCallback) const;
template PendingCall Client::ReadRowsAsync(const MatrixRows&, std::span<double>,
                                           MatrixCallback) const;

absl::StatusOr<MatrixInfo> Client::GetMatrix(const std::string& name) const {
  return impl_->matrices().Info(name);
}

absl::StatusOr<std::vector<MatrixInfo>> Client::ListMatrices() const {
  return impl_->matrices().List();
}

absl::Status Client::DeleteMatrix(const std::string& name) const {
  return impl_->matrices().Delete(name);
}

template <typename T>
absl::StatusOr<MatrixInfo> Client::Put(const PutArgs<T>& args) const {
  const absl::StatusOr<client::CheckedPut> put =
      client::CheckPut({.name = args.name,
                        .element_type = client::ElementTypeOf<T>(),
                        .rows = args.rows,
                        .columns = args.columns,
                        .time_to_live = args.time_to_live},
                       args.leading_dimension, client::ElementSpan(args.data));
  if (!put.ok()) return put.status();
  return impl_->matrices().Put(*put, args.exist_ok, args.on_transfer);
}

template absl::StatusOr<MatrixInfo> Client::Put(const PutArgs<float>&) const;
template absl::StatusOr<MatrixInfo> Client::Put(const PutArgs<double>&) const;

template <typename T>
absl::StatusOr<MatrixInfo> Client::Get(const MatrixRows& rows, std::span<T> data,
                                       const OnTransfer& on_transfer) const {
  return impl_->matrices().Get(rows, client::ElementSpan(data), on_transfer);
}

template absl::StatusOr<MatrixInfo> Client::Get(const MatrixRows&, std::span<float>,
                                                const OnTransfer&) const;
template absl::StatusOr<MatrixInfo> Client::Get(const MatrixRows&, std::span<double>,
                                                const OnTransfer&) const;

void Client::CancelCalls() const { impl_->CancelCalls(); }

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
