#include "client/cpp/internal/connection.h"

#include <grpc/grpc.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/internal/advice.h"
#include "client/cpp/internal/error.h"

namespace gemm::client {
namespace {

// The size of the whole message: the server admits a call by it before reading a byte.
constexpr char kRequestBytesKey[] = "gemmd-request-bytes";

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration), INT_MAX));
}

// Otherwise gRPC shuts down with the last channel, which takes up to 10 s while one of its threads
// still polls for a write that was under way.
void KeepGrpcRunning() {
  static const bool running = (grpc_init(), true);
  (void)running;
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  KeepGrpcRunning();
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(),
                                   MakeChannelArguments(options));
}

}  // namespace

grpc::ChannelArguments MakeChannelArguments(const ClientOptions& options) {
  grpc::ChannelArguments args;
  args.SetUserAgentPrefix(absl::StrCat("gemmd-cpp/", GEMMD_CLIENT_VERSION));
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  // A gRPC that retries keeps the request's slices, and copies small ones.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, options.use_http_proxy ? 1 : 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // A connection for each Client, rather than one for all of a process.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Between failed connects gRPC answers calls with the last failure; its default of 1 s would make
  // our own quicker retries pointless.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // No pings (servers count them as abuse), but any finite interval makes gRPC set TCP_USER_TIMEOUT
  // to the ping's timeout. Nothing else ends a write to a peer that has stopped reading: gRPC does
  // not close a connection while a write is under way, and the write holds the caller's memory.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX - 1);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.stall_timeout));
  return args;
}

Connection::Connection(const ClientOptions& options)
    : address_(options.address),
      use_http_proxy_(options.use_http_proxy),
      channel_(MakeChannel(options)) {
  channel_->GetState(/*try_to_connect=*/true);
}

void Connection::Call(grpc::ClientContext& context, const std::string& method,
                      const grpc::ByteBuffer& request, grpc::ByteBuffer& reply,
                      std::function<void(const absl::Status&)> done, PolledQueue* queue) const {
  context.AddMetadata(kRequestBytesKey, absl::StrCat(request.Length()));
  grpc::GenericStub stub(channel_);
  const absl::Time start = absl::Now();
  if (queue != nullptr) {
    struct Attempt {
      std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
      grpc::Status status;
    };
    const auto attempt = std::make_shared<Attempt>();
    attempt->reader = stub.PrepareUnaryCall(&context, method, request, queue->queue());
    attempt->reader->StartCall();
    attempt->reader->Finish(
        &reply, &attempt->status,
        queue->Tag([this, method, done = std::move(done), start, attempt]() mutable {
          attempt->reader.reset();  // it lies in the context's memory
          done(ToStatus(attempt->status, method, start));
        }));
    return;
  }
  // Here gRPC's own threads keep serving the connection after this call, so that borrowed memory
  // comes back even if nobody calls again.
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &reply,
                 [this, method, done = std::move(done), start](const grpc::Status& status) {
                   done(ToStatus(status, method, start));
                 });
}

absl::Status Connection::ToStatus(const grpc::Status& status, const std::string& method,
                                  absl::Time start) const {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::string& message = status.error_message();
  if (!status.error_details().empty()) {
    return ErrorWithDetails(code, message, status.error_details());
  }
  // Not the server's own words, but gRPC's: those for people go before them.
  std::string advice;
  if (code == absl::StatusCode::kDeadlineExceeded) {
    const bool connected = channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
    advice = absl::StrCat(
        connected ? "no reply from " : "no gRPC server answered at ", address_, " within ",
        absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Milliseconds(1))));
  } else {
    advice = AdviceOn({code, message, address_, method, use_http_proxy_});
  }
  return absl::Status(code, advice.empty() ? message : absl::StrCat(advice, " (", message, ")"));
}

}  // namespace gemm::client
