#include "server/rpc/rpc_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gemm/v1/gemm.grpc.pb.h"
#include "server/engine/clock.h"
#include "server/reason.h"
#include "server/rpc/call_stream.h"
#include "server/rpc/explain_call.h"
#include "server/rpc/health.h"
#include "server/rpc/info_call.h"
#include "server/rpc/library_log.h"
#include "server/rpc/listener.h"
#include "server/rpc/matrix_call.h"
#include "server/rpc/pollers.h"
#include "server/rpc/product_call.h"
#include "server/rpc/transport.h"
#include "server/rpc/unsent.h"

namespace gemm {
namespace {

// Calls other than products that may read their message at once.
constexpr uint64_t kControlCalls = 1024;

// When the products are done, what is left ends by itself, unless its caller sends no message.
constexpr absl::Duration kControlCallsEnd = absl::Seconds(1);

// While draining, how long a message that is on its way may take, beside its bytes at 10 MB/s.
constexpr absl::Duration kDrainReceive = absl::Seconds(2);

class UnknownCall final : public Call {
 public:
  UnknownCall(RpcContext& context, CallStream& stream)
      : Call(context, stream, RpcMethod::kUnknown, context.control_admission,
             kControlMessageBytes) {}

 private:
  void OnStart() override { Fail(absl::UnimplementedError("this server has no such method")); }
  void OnMessage() override {}
};

// What answers a call whose headers have come.
CallStream::Reactor* Answer(RpcContext& context, CallStream& stream) {
  const std::string& method = stream.context().method();
  if (method == "/gemm.v1.GemmService/Multiply")
    return new ProductCall(context, stream, kMultiplyMethod);
  if (method == "/gemm.v1.GemmService/MultiplyBatch")
    return new ProductCall(context, stream, kMultiplyBatchMethod);
  if (method == "/gemm.v1.GemmService/Explain") return new ExplainCall(context, stream);
  if (method == "/gemm.v1.GemmService/GetServerInfo") return new InfoCall(context, stream);
  if (method == "/grpc.health.v1.Health/Check") return new HealthCheckCall(context, stream);
  if (method == "/grpc.health.v1.Health/Watch") return new HealthWatchCall(context, stream);
  constexpr std::string_view kService = "/gemm.v1.GemmService/";
  if (method.starts_with(kService)) {
    const MatrixMethod* about_matrices = FindMatrixMethod(method.substr(kService.size()));
    if (about_matrices != nullptr) return new MatrixCall(context, stream, *about_matrices);
  }
  return new UnknownCall(context, stream);
}

// Reflection lists only services with a registered method, so with reflection on (it is meant for
// development) GetServerInfo alone is served the ordinary way; the rest passes the gate.
using GatedProducts =
    v1::GemmService::WithGenericMethod_Multiply<v1::GemmService::WithGenericMethod_MultiplyBatch<
        v1::GemmService::WithGenericMethod_Explain<v1::GemmService::Service>>>;
using GatedRows =
    v1::GemmService::WithGenericMethod_CreateMatrix<v1::GemmService::WithGenericMethod_WriteRows<
        v1::GemmService::WithGenericMethod_ReadRows<GatedProducts>>>;
using GatedMatrices =
    v1::GemmService::WithGenericMethod_GetMatrix<v1::GemmService::WithGenericMethod_ListMatrices<
        v1::GemmService::WithGenericMethod_DeleteMatrix<GatedRows>>>;
class ListedService final
    : public v1::GemmService::WithCallbackMethod_GetServerInfo<GatedMatrices> {
 public:
  explicit ListedService(const RpcContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* grpc_context,
                                          const v1::GetServerInfoRequest* /*request*/,
                                          v1::GetServerInfoReply* reply) override {
    *reply = MakeServerInfo(context_);
    grpc::ServerUnaryReactor* reactor = grpc_context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const RpcContext& context_;
};

// Linking gRPC's reflection library is enough to switch it on; this switches it off again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) {
      return plugin->name() == grpc::reflection::ProtoServerReflectionPlugin().name();
    });
  }
};

// Keeps gRPC's library up until the process ends. Its own shutdown, when the last server goes,
// waits up to 10 s for a poller that a large reply may have started.
void KeepGrpcInitialised() {
  static std::once_flag once;
  std::call_once(once, grpc_init);
}

int ExecutorThreads(int asked) {
  if (asked > 0) return asked;
  return std::max(2, static_cast<int>(std::thread::hardware_concurrency()) / 2);
}

// Each with a thread. One that is busy holds up its other connections, so one for each core.
int PolledQueues() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 32);
}

// A device that hangs keeps the callers' threads that run small products in its lanes.
int SparePollerThreads(const Engine& engine) {
  size_t lanes = 0;
  for (const auto& device : engine.devices()) lanes += device->lanes().size();
  return static_cast<int>(lanes);
}

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(const RpcOptions& options, Engine& engine, MatrixStore& matrices, Metrics& metrics)
      : options_(options),
        product_admission_(options.admission_budget_bytes, options.admission_line_limit),
        control_admission_(kControlCalls * kControlMessageBytes, options.admission_line_limit),
        receiving_(options.receive_timeout),
        executor_(ExecutorThreads(options.executor_threads)),
        context_{options_,
                 engine,
                 matrices,
                 metrics,
                 health_,
                 executor_,
                 product_admission_,
                 control_admission_,
                 receiving_,
                 refusing_,
                 products_in_flight_,
                 SteadyNow()},
        calls_([this](CallStream& stream) { return Answer(context_, stream); }),
        listed_service_(context_) {}

  ~RpcServerImpl() override { Shutdown(SteadyNow()); }

  absl::Status Listen() {
    CaptureLibraryLogs();
    KeepGrpcInitialised();
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();  // before any builder is made
    if (!options_.listen_address.empty()) {
      const absl::StatusOr<int> port = listener_.ListenOnTcp(options_.listen_address);
      if (!port.ok()) return port.status();
      port_ = *port;
    }
    if (!options_.unix_path.empty()) {
      absl::Status status = listener_.ListenOnUnix(options_.unix_path);
      if (!status.ok()) return status;
    }
    grpc::ServerBuilder builder;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    SetTransport(options_.message_limit_bytes, builder);
    builder.RegisterAsyncGenericService(&calls_.service());
    for (int i = 0; i < PolledQueues(); ++i) queues_.push_back(builder.AddCompletionQueue());
    if (options_.reflection) {
      builder.RegisterService(&listed_service_);
    } else {
      builder.SetOption(std::make_unique<WithoutReflection>());
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("gRPC does not start");
    std::vector<grpc::ServerCompletionQueue*> queues;
    for (const auto& queue : queues_) queues.push_back(queue.get());
    pollers_.emplace(std::vector<grpc::CompletionQueue*>(queues.begin(), queues.end()),
                     SparePollerThreads(context_.engine));
    calls_.Open(queues);
    listener_.Start([this](int listening_fd, int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.listener_fd = listening_fd;
      connection.fd = fd;
      connections_->HandleNewConnection(&connection);
    });
    return absl::OkStatus();
  }

  int port() const override { return port_; }
  void SetServing(bool serving) override { health_.SetServing(serving); }
  void Refuse() override { refusing_ = true; }

  void Drain(absl::Time deadline) override {
    refusing_ = true;
    health_.SetServing(false);
    receiving_.Drain(kDrainReceive);
    products_in_flight_.WaitForNone(deadline);
    health_.EndWatches();
    unsent_.WaitForNone(deadline);
  }

  void Shutdown(absl::Time deadline) override {
    if (server_ == nullptr) return;
    // gRPC's own shutdown cancels calls that arrive from now on instead of saying why, so what is
    // under way ends first.
    Drain(deadline);
    listener_.Stop();
    const absl::Duration left = std::min(deadline - SteadyNow(), kControlCallsEnd);
    server_->Shutdown(absl::ToChronoTime(absl::Now() + left));
    calls_.WaitForNone();
    for (const auto& queue : queues_) queue->Shutdown();
    pollers_.reset();
    server_.reset();
  }

  uint64_t admitted_bytes() const override { return product_admission_.used_bytes(); }

 private:
  const RpcOptions options_;
  HealthState health_;
  Admission product_admission_;
  Admission control_admission_;
  Receiving receiving_;
  std::atomic<bool> refusing_{false};
  InFlight products_in_flight_;
  Unsent unsent_;
  Executor executor_;
  RpcContext context_;
  CallSource calls_;
  ListedService listed_service_;
  int port_ = 0;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::optional<Pollers> pollers_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  Listener listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcOptions& options,
                                                            Engine& engine, MatrixStore& matrices,
                                                            Metrics& metrics) {
  auto server = std::make_unique<RpcServerImpl>(options, engine, matrices, metrics);
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace gemm
