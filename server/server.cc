#include "server/server.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/engine/clock.h"
#include "server/engine/engine.h"
#include "server/host_port.h"
#include "server/memory/matrix_store.h"
#include "server/rpc/rpc_server.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/metrics_page.h"
#if GEMMD_WITH_CUDA
#include "server/engine/cuda_device.h"
#endif

namespace gemm {
namespace {

using Devices = std::vector<std::unique_ptr<Device>>;

// Calls in flight on a lost device fail at once, so that this is for sending the replies.
constexpr absl::Duration kDeviceLostDrain = absl::Seconds(5);

// Label values for metrics: a kernel's name begins with its family's.
std::vector<std::string> KernelFamilies(const Devices& devices) {
#if GEMMD_WITH_CUDA
  if (devices.front()->description().kind == "cuda") return CudaKernelFamilies();
#endif
  std::vector<std::string> families;
  for (const std::string& kernel : devices.front()->kernel_names()) {
    std::string family = kernel.substr(0, kernel.find('_'));
    if (std::find(families.begin(), families.end(), family) == families.end()) {
      families.push_back(std::move(family));
    }
  }
  return families;
}

// Forwards to the metrics and tells of lost devices.
class Observer final : public EngineObserver {
 public:
  Observer(Metrics& metrics, std::function<void(int device)> device_lost)
      : metrics_(metrics), device_lost_(std::move(device_lost)) {}

  void OnBatch(const Batch& batch) override { metrics_.OnBatch(batch); }
  void OnDropped(const Job& job, const absl::Status& status) override {
    metrics_.OnDropped(job, status);
  }
  void OnDeviceLost(const DeviceDescription& device) override {
    metrics_.OnDeviceLost(device);
    Log(LogLevel::kError, "device lost",
        {{"device", device.index}, {"name", device.name}, {"uuid", device.uuid}});
    device_lost_(device.index);
  }

 private:
  Metrics& metrics_;
  const std::function<void(int device)> device_lost_;
};

// One product, all the way to the device and back: (1 2 3; 4 5 6) (1 2; 3 4; 5 6).
absl::Status SelfTest(Engine& engine) {
  constexpr float kA[] = {1, 2, 3, 4, 5, 6};
  constexpr float kB[] = {1, 2, 3, 4, 5, 6};
  constexpr float kD[] = {22, 28, 49, 64};

  auto input = engine.AllocateHost(kOperandAlignment + sizeof(kB));
  if (!input.ok()) return input.status();
  auto output = engine.AllocateHost(sizeof(kD));
  if (!output.ok()) return output.status();
  auto job = std::make_unique<Job>();
  JobProduct& product = job->products.emplace_back();
  product.problem = DenseProblem(DType::kF32, 2, 2, 3);
  product.a = {0, sizeof(kA)};
  product.b = {kOperandAlignment, sizeof(kB)};
  product.output_bytes = sizeof(kD);
  job->input = *std::move(input);
  job->output = *std::move(output);
  std::memcpy(job->input.data() + product.a.offset_bytes, kA, sizeof(kA));
  std::memcpy(job->input.data() + product.b.offset_bytes, kB, sizeof(kB));

  std::promise<absl::Status> promise;
  std::future<absl::Status> result = promise.get_future();
  job->done = [&promise, &kD](absl::Status status, std::unique_ptr<Job> done) {
    status.Update(done->products.front().status);
    const auto* d = reinterpret_cast<const float*>(done->output.data());
    if (status.ok() && !std::equal(std::begin(kD), std::end(kD), d)) {
      status = absl::InternalError("the device computed a wrong product");
    }
    promise.set_value(std::move(status));
  };
  engine.Submit(std::move(job));
  while (result.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
    Log(LogLevel::kWarning, "still waiting for the first product");
  }
  return result.get();
}

// Memory of a device for matrices that stay, where no option says.
uint64_t MatrixMemoryOf(const DeviceDescription& device) {
  if (device.kind == "cuda") return device.memory_bytes / 10 * 6;
  return std::min(uint64_t{4} << 30, device.memory_bytes / 2);
}

MatrixStore::Options MatrixOptions(const Options& options, const Devices& devices) {
  MatrixStore::Options matrices;
  uint64_t all_bytes = 0;
  for (const auto& device : devices) {
    const uint64_t bytes = options.matrix_memory_bytes != 0 ? options.matrix_memory_bytes
                                                            : MatrixMemoryOf(device->description());
    matrices.device_bytes.push_back(bytes);
    all_bytes += bytes;
  }
  matrices.quota_bytes = options.matrix_quota_bytes != 0 ? options.matrix_quota_bytes : all_bytes;
  matrices.matrices = options.matrix_count;
  matrices.time_to_live = options.matrix_ttl;
  return matrices;
}

std::string WithPort(const std::string& listen, int port) {
  HostPort address = *ParseHostPort(listen);
  address.port = port;
  return ToString(address);
}

class ServerImpl final : public Server {
 public:
  explicit ServerImpl(const Options& options) : options_(options) {}
  ~ServerImpl() override;

  absl::Status Start(Devices devices);
  std::string grpc_address() const override;
  std::string unix_address() const override;
  std::string metrics_address() const override;
  End Run() override;
  void RequestStop() override;

 private:
  void AddGauges();

  const Options options_;
  const SteadyClock clock_;

  // Set by Start, constant after it, in the order in which each needs those before it.
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Observer> observer_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MatrixStore> matrices_;  // made before the engine, which tells it of lost devices
  std::unique_ptr<RpcServer> rpc_;
  std::unique_ptr<MetricsPage> metrics_page_;

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable changed_;
  bool stop_requested_ = false;
  bool device_lost_ = false;  // one or more
};

ServerImpl::~ServerImpl() {
  if (metrics_ != nullptr) metrics_->RemoveGauges();
  rpc_.reset();
  if (engine_ != nullptr) engine_->Drain();
}

absl::Status ServerImpl::Start(Devices devices) {
  MetricsOptions metrics_options{
      std::string(Version()), std::string(Commit()), KernelFamilies(devices), {}};
  for (const auto& device : devices) {
    const DeviceDescription& description = device->description();
    metrics_options.devices.push_back(description);
    Log(LogLevel::kInfo, "device ready",
        {{"device", description.index},
         {"name", description.name},
         {"uuid", description.uuid},
         {"kind", description.kind},
         {"memory_bytes", description.memory_bytes}});
  }
  metrics_ = std::make_unique<Metrics>(metrics_options);
  matrices_ = std::make_unique<MatrixStore>(
      MatrixOptions(options_, devices),
      [this](int device, const MatrixSpec& spec) { return engine_->AllocateMatrix(device, spec); },
      clock_);
  observer_ = std::make_unique<Observer>(*metrics_, [this](int device) {
    matrices_->DropDevice(device);
    const std::lock_guard lock(mutex_);
    device_lost_ = true;
    changed_.notify_all();
  });
  const EngineOptions engine_options{.queue = {.problems = options_.queue_problems,
                                               .bytes = options_.queue_bytes,
                                               .flops = options_.queue_flops},
                                     .host_memory_budget_bytes = options_.host_memory_bytes,
                                     .small_jobs_on_callers_thread = true};
  engine_ = std::make_unique<Engine>(engine_options, std::move(devices), clock_, *observer_);
  if (absl::Status status = SelfTest(*engine_); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the first product failed: ", std::string(status.message())));
  }

  const RpcOptions rpc_options{.listen_address = options_.listen,
                               .unix_path = options_.unix_listen,
                               .message_limit_bytes = options_.message_limit_bytes,
                               .admission_budget_bytes = options_.admission_budget_bytes,
                               .admission_line_limit = options_.admission_line,
                               .receive_timeout = options_.receive_timeout,
                               .matrix_ttl_limit = options_.matrix_ttl_limit,
                               .reflection = options_.reflection,
                               .executor_threads = options_.executor_threads,
                               .version = std::string(Version()),
                               .commit = std::string(Commit())};
  auto rpc = RpcServer::Start(rpc_options, *engine_, *matrices_, *metrics_);
  if (!rpc.ok()) return rpc.status();
  rpc_ = *std::move(rpc);
  AddGauges();

  if (!options_.metrics_listen.empty()) {
    const HostPort address = *ParseHostPort(options_.metrics_listen);
    auto page = MetricsPage::Serve(address.host, address.port, *metrics_);
    if (!page.ok()) return page.status();
    metrics_page_ = *std::move(page);
  }

  rpc_->SetServing(true);
  Log(LogLevel::kInfo, "gemmd listening",
      {{"grpc_address", grpc_address()},
       {"unix_address", unix_address()},
       {"metrics_address", metrics_address()}});
  return absl::OkStatus();
}

std::string ServerImpl::grpc_address() const {
  if (options_.listen.empty()) return {};
  return WithPort(options_.listen, rpc_->port());
}

std::string ServerImpl::unix_address() const {
  if (options_.unix_listen.empty()) return {};
  return absl::StrCat("unix:", options_.unix_listen);
}

std::string ServerImpl::metrics_address() const {
  if (metrics_page_ == nullptr) return {};
  return WithPort(options_.metrics_listen, metrics_page_->port());
}

void ServerImpl::AddGauges() {
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  metrics_->SetGauges({
      .queue_problems = [=, this] { return number(engine_->queued_problems()); },
      .queue_bytes = [=, this] { return number(engine_->queued_bytes()); },
      .queue_flops = [this] { return engine_->queued_flops(); },
      .running_problems = [=, this] { return number(engine_->running_problems()); },
      .host_memory_used_bytes = [=, this] { return number(engine_->host_memory_used_bytes()); },
      .host_memory_reserved_bytes =
          [=, this] { return number(engine_->host_memory_reserved_bytes()); },
      .host_memory_budget_bytes = [=, this] { return number(engine_->host_memory_budget_bytes()); },
      .device_memory_used_bytes = [=,
                                   this] { return number(engine_->working_memory().used_bytes); },
      .device_memory_budget_bytes =
          [=, this] { return number(engine_->working_memory().limit_bytes); },
      .matrix_memory_used_bytes = [=, this] { return number(matrices_->used_bytes()); },
      .matrix_memory_budget_bytes = [=, this] { return number(matrices_->budget_bytes()); },
      .matrices = [=, this] { return number(matrices_->matrices()); },
      .admitted_bytes = [=, this] { return number(rpc_->admitted_bytes()); },
      .admission_budget_bytes = [=, this] { return number(options_.admission_budget_bytes); },
  });
}

Server::End ServerImpl::Run() {
  bool stopped = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [this] { return stop_requested_ || (device_lost_ && !engine_->healthy()); });
    stopped = stop_requested_;
  }
  rpc_->SetServing(false);
  if (!stopped) {
    Log(LogLevel::kError, "no device is left that works, stopping");
    rpc_->Drain(SteadyNow() + kDeviceLostDrain);  // a shutdown would wait for calls of a stuck lane
    return End::kDeviceLost;
  }

  const absl::Time start = SteadyNow();
  Log(LogLevel::kInfo, "draining",
      {{"window_seconds", absl::ToDoubleSeconds(options_.drain_window)},
       {"timeout_seconds", absl::ToDoubleSeconds(options_.drain_timeout)}});
  absl::SleepFor(options_.drain_window);
  rpc_->Refuse();
  rpc_->Shutdown(SteadyNow() + options_.drain_timeout);
  engine_->Drain();
  Log(LogLevel::kInfo, "drained", {{"seconds", absl::ToDoubleSeconds(SteadyNow() - start)}});
  return End::kDrained;
}

void ServerImpl::RequestStop() {
  const std::lock_guard lock(mutex_);
  stop_requested_ = true;
  changed_.notify_all();
}

}  // namespace

std::string_view Version() { return GEMMD_VERSION; }
std::string_view Commit() { return GEMMD_COMMIT; }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options, Devices devices) {
  auto server = std::make_unique<ServerImpl>(options);
  if (absl::Status status = server->Start(std::move(devices)); !status.ok()) return status;
  return server;
}

}  // namespace gemm
