#include "server/telemetry/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "server/telemetry/process_metrics.h"

namespace gemm {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;

// From a tiny product's copy to an upload over a slow link, densest where requests spend their
// time, so that a percentile read from them is off by less than half.
const Histogram::BucketBoundaries kSecondsBuckets = {1e-6, 3e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
                                                     1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.2,
                                                     0.5,  1,    3,    10,   30,   100};
const Histogram::BucketBoundaries kBatchBuckets = {1,   2,   4,   8,    16,   32,  64,
                                                   128, 256, 512, 1024, 2048, 4096};

struct MethodLabels {
  const char* type;
  const char* service;
  const char* method;
};

// In the order of RpcMethod.
constexpr std::array<MethodLabels, kRpcMethodCount> kMethods = {{
    {"unary", "gemm.v1.GemmService", "Multiply"},
    {"unary", "gemm.v1.GemmService", "MultiplyBatch"},
    {"unary", "gemm.v1.GemmService", "CreateMatrix"},
    {"unary", "gemm.v1.GemmService", "WriteRows"},
    {"unary", "gemm.v1.GemmService", "ReadRows"},
    {"unary", "gemm.v1.GemmService", "GetMatrix"},
    {"unary", "gemm.v1.GemmService", "ListMatrices"},
    {"unary", "gemm.v1.GemmService", "DeleteMatrix"},
    {"unary", "gemm.v1.GemmService", "Explain"},
    {"unary", "gemm.v1.GemmService", "GetServerInfo"},
    {"unary", "grpc.health.v1.Health", "Check"},
    {"server_stream", "grpc.health.v1.Health", "Watch"},
    {"unary", "unknown", "unknown"},  // never the caller's text: anyone could make up series
}};
static_assert(static_cast<int>(RpcMethod::kUnknown) == kRpcMethodCount - 1);

constexpr std::array<std::string_view, 17> kGrpcCodes = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
constexpr size_t kGrpcUnknown = 2;

constexpr std::string_view kOtherFamily = "other";  // of kernels that were not announced

size_t CodeIndex(int grpc_code) {
  return grpc_code >= 0 && static_cast<size_t>(grpc_code) < kGrpcCodes.size()
             ? static_cast<size_t>(grpc_code)
             : kGrpcUnknown;
}

// Reads Metrics::Gauges when scraped; zeros while there are none.
class LiveGauges final : public prometheus::Collectable {
 public:
  void Set(Metrics::Gauges gauges) {
    const std::lock_guard lock(mutex_);
    gauges_ = std::move(gauges);
  }

  std::vector<MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    const auto read = [](const std::function<double()>& gauge) { return gauge ? gauge() : 0; };
    return {
        OneValue("gemmd_queue_problems", "Problems waiting for a device.", MetricType::Gauge,
                 read(gauges_.queue_problems)),
        OneValue("gemmd_queue_bytes", "Host memory that waiting problems hold.", MetricType::Gauge,
                 read(gauges_.queue_bytes)),
        OneValue("gemmd_queue_flops", "Floating-point operations of waiting problems.",
                 MetricType::Gauge, read(gauges_.queue_flops)),
        OneValue("gemmd_running_problems", "Problems that devices are at work on.",
                 MetricType::Gauge, read(gauges_.running_problems)),
        Pools("gemmd_budget_limit_bytes", "Configured size of a memory budget.",
              {{"admission", read(gauges_.admission_budget_bytes)},
               {"device", read(gauges_.device_memory_budget_bytes)},
               {"host", read(gauges_.host_memory_budget_bytes)},
               {"matrices", read(gauges_.matrix_memory_budget_bytes)}}),
        Pools("gemmd_budget_used_bytes", "Bytes taken from a memory budget.",
              {{"admission", read(gauges_.admitted_bytes)},
               {"device", read(gauges_.device_memory_used_bytes)},
               {"host", read(gauges_.host_memory_used_bytes)},
               {"matrices", read(gauges_.matrix_memory_used_bytes)}}),
        OneValue("gemmd_host_memory_reserved_bytes",
                 "Host memory that products hold or that is kept, page-locked, for the next ones.",
                 MetricType::Gauge, read(gauges_.host_memory_reserved_bytes)),
        OneValue("gemmd_matrices", "Matrices that stay on the server.", MetricType::Gauge,
                 read(gauges_.matrices)),
    };
  }

 private:
  using PoolValues = std::vector<std::pair<const char*, double>>;

  static MetricFamily Pools(std::string name, std::string help, const PoolValues& values) {
    MetricFamily family{std::move(name), std::move(help), MetricType::Gauge, {}};
    for (const auto& [pool, value] : values) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label.push_back({"pool", pool});
      metric.gauge.value = value;
    }
    return family;
  }

  mutable std::mutex mutex_;
  Metrics::Gauges gauges_;  // protected by mutex_
};

}  // namespace

std::string_view NameOf(RpcMethod method) { return kMethods[static_cast<size_t>(method)].method; }

std::string_view NameOf(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> kNames = {
      "admit", "receive", "decode", "queue", "copy_in", "compute", "copy_out", "send"};
  static_assert(static_cast<int>(Phase::kSend) == kPhaseCount - 1);
  return kNames[static_cast<size_t>(phase)];
}

std::string_view GrpcCodeName(int grpc_code) { return kGrpcCodes[CodeIndex(grpc_code)]; }

// Children, all added by the constructor: Family::Add takes a lock and hashes the labels.
struct Metrics::Impl {
  struct OfDevice {
    Counter& LaunchesOf(std::string_view family, size_t dtype);

    std::map<std::string, std::array<Counter*, kDTypes.size()>, std::less<>> launches;  // by family
    std::array<Counter*, kDTypes.size()> flops;
    Counter* delivered_seconds = nullptr;
    Counter* wasted_seconds = nullptr;
    Gauge* lost = nullptr;
  };

  explicit Impl(const MetricsOptions& options);

  void AddDevices(const MetricsOptions& options);

  Family<Counter>& CounterFamily(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry);
  }
  Family<Gauge>& GaugeFamily(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry);
  }
  Family<Histogram>& HistogramFamily(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry);
  }

  const std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  const std::shared_ptr<LiveGauges> live_gauges = std::make_shared<LiveGauges>();
  const std::shared_ptr<ProcessMetrics> process = std::make_shared<ProcessMetrics>();

  std::array<Counter*, kRpcMethodCount> started;
  std::array<std::array<Counter*, kGrpcCodes.size()>, kRpcMethodCount> handled;
  std::array<Histogram*, kRpcMethodCount> handling_seconds;
  std::array<Histogram*, kPhaseCount> phase_seconds;
  std::array<std::array<Counter*, 2>, 2> bytes;  // by Road and Direction
  std::array<Counter*, kReasonCount> refused;
  std::array<Counter*, kReasonCount> dropped;
  Histogram* batch_problems = nullptr;
  std::map<int, OfDevice> devices;  // by index
};

Metrics::Impl::Impl(const MetricsOptions& options) {
  auto& started_family =
      CounterFamily("grpc_server_started_total", "Calls whose headers have arrived.");
  auto& handled_family = CounterFamily("grpc_server_handled_total", "Calls that have ended.");
  auto& handling_family = HistogramFamily("grpc_server_handling_seconds",
                                          "From a call's headers to its end, on the server.");
  for (int i = 0; i < kRpcMethodCount; ++i) {
    const Labels labels = {{"grpc_type", kMethods[i].type},
                           {"grpc_service", kMethods[i].service},
                           {"grpc_method", kMethods[i].method}};
    started[i] = &started_family.Add(labels);
    handling_seconds[i] = &handling_family.Add(labels, kSecondsBuckets);
    for (size_t code = 0; code < kGrpcCodes.size(); ++code) {
      Labels with_code = labels;
      with_code["grpc_code"] = std::string(kGrpcCodes[code]);
      handled[i][code] = &handled_family.Add(with_code);
    }
  }

  auto& phase_family =
      HistogramFamily("gemmd_phase_seconds", "Time that products spend in each phase.");
  for (int i = 0; i < kPhaseCount; ++i) {
    phase_seconds[i] =
        &phase_family.Add({{"phase", std::string(NameOf(static_cast<Phase>(i)))}}, kSecondsBuckets);
  }

  auto& bytes_family = CounterFamily("gemmd_bytes_total",
                                     "Matrix bytes carried in messages, or used where they were.");
  constexpr std::array<const char*, 2> kRoads = {"inline", "resident"};
  for (size_t road = 0; road < kRoads.size(); ++road) {
    bytes[road][static_cast<size_t>(Direction::kIn)] =
        &bytes_family.Add({{"road", kRoads[road]}, {"direction", "in"}});
    bytes[road][static_cast<size_t>(Direction::kOut)] =
        &bytes_family.Add({{"road", kRoads[road]}, {"direction", "out"}});
  }

  auto& refused_family = CounterFamily("gemmd_refused_total", "Calls refused before the queue.");
  auto& dropped_family =
      CounterFamily("gemmd_dropped_total", "Products dropped from the queue before the device.");
  for (int i = 0; i < kReasonCount; ++i) {
    const Labels labels = {{"reason", std::string(NameOf(static_cast<Reason>(i)))}};
    refused[i] = &refused_family.Add(labels);
    dropped[i] = &dropped_family.Add(labels);
  }

  batch_problems =
      &HistogramFamily("gemmd_batch_problems", "Products of each batch that a device has run.")
           .Add({}, kBatchBuckets);
  AddDevices(options);
  GaugeFamily("gemmd_build_info", "What is running; always 1.")
      .Add({{"version", options.version}, {"commit", options.commit}})
      .Set(1);
}

void Metrics::Impl::AddDevices(const MetricsOptions& options) {
  auto& info_family = GaugeFamily("gemmd_device_info", "A device of this server; always 1.");
  auto& lost_family =
      GaugeFamily("gemmd_device_lost", "1 once a device has failed for good, else 0.");
  auto& ceiling_family =
      GaugeFamily("gemmd_device_ceiling_flops_per_second",
                  "What a device computes while no byte moves, measured when it was opened.");
  auto& seconds_family = CounterFamily("gemmd_device_seconds_total",
                                       "Time that devices computed, by what became of the result.");
  auto& launches_family = CounterFamily("gemmd_kernel_launches_total", "Kernels launched.");
  auto& flops_family = CounterFamily(
      "gemmd_flops_total", "Floating-point operations of finished products, 2 m n k each.");

  std::vector<std::string> families = options.kernel_families;
  families.emplace_back(kOtherFamily);
  for (const DeviceDescription& description : options.devices) {
    OfDevice& device = devices[description.index];
    const std::string index = absl::StrCat(description.index);
    info_family
        .Add({{"device", index},
              {"name", description.name},
              {"uuid", description.uuid},
              {"kind", description.kind}})
        .Set(1);
    device.lost = &lost_family.Add({{"device", index}});
    device.delivered_seconds = &seconds_family.Add({{"device", index}, {"outcome", "delivered"}});
    device.wasted_seconds = &seconds_family.Add({{"device", index}, {"outcome", "wasted"}});
    for (size_t d = 0; d < kDTypes.size(); ++d) {
      const Labels labels = {{"device", index}, {"dtype", std::string(NameOf(kDTypes[d]))}};
      ceiling_family.Add(labels).Set(description.ceiling_flops_per_second[d]);
      device.flops[d] = &flops_family.Add(labels);
      for (const std::string& family : families) {
        Labels with_family = labels;
        with_family["family"] = family;
        device.launches[family][d] = &launches_family.Add(with_family);
      }
    }
  }
}

Counter& Metrics::Impl::OfDevice::LaunchesOf(std::string_view family, size_t dtype) {
  auto it = launches.find(family);
  if (it == launches.end()) it = launches.find(kOtherFamily);
  return *it->second[dtype];
}

Metrics::Metrics(const MetricsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Metrics::~Metrics() = default;

void Metrics::CallStarted(RpcMethod method) {
  impl_->started[static_cast<size_t>(method)]->Increment();
}

void Metrics::CallHandled(RpcMethod method, int grpc_code, absl::Duration duration) {
  const auto index = static_cast<size_t>(method);
  impl_->handled[index][CodeIndex(grpc_code)]->Increment();
  impl_->handling_seconds[index]->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::ObservePhase(Phase phase, absl::Duration duration) {
  impl_->phase_seconds[static_cast<size_t>(phase)]->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::AddBytes(Direction direction, uint64_t bytes, Road road) {
  impl_->bytes[static_cast<size_t>(road)][static_cast<size_t>(direction)]->Increment(
      static_cast<double>(bytes));
}

void Metrics::CountRefused(Reason reason) {
  impl_->refused[static_cast<size_t>(reason)]->Increment();
}

void Metrics::OnBatch(const Batch& batch) {
  Impl::OfDevice& device = impl_->devices.at(batch.device);
  impl_->batch_problems->Observe(batch.problems);
  // The time is the batch's; each product counts for its part.
  const double seconds_each = absl::ToDoubleSeconds(batch.compute) / batch.problems;
  for (const std::unique_ptr<Job>& job : batch.jobs) {
    ObservePhase(Phase::kQueue, job->queue);
    double delivered = 0;
    for (const JobProduct& product : job->products) {
      const ExecutionReport& report = product.report;
      const auto dtype = static_cast<size_t>(product.problem.dtype);
      if (report.launches > 0) {
        device.LaunchesOf(report.kernel_family, dtype).Increment(report.launches);
      }
      // The times and the work of one that failed came to nothing.
      if (!NeedsDevice(product)) continue;
      ObservePhase(Phase::kCopyIn, report.copy_in);
      ObservePhase(Phase::kCompute, report.compute);
      ObservePhase(Phase::kCopyOut, report.copy_out);
      if (ReadsAB(product.problem)) device.flops[dtype]->Increment(FlopCount(product.problem));
      delivered += seconds_each;
    }
    const bool wanted = job->cancel == nullptr || !job->cancel->cancelled();
    (wanted ? device.delivered_seconds : device.wasted_seconds)->Increment(delivered);
  }
}

void Metrics::OnDropped(const Job& job, const absl::Status& status) {
  ObservePhase(Phase::kQueue, job.queue);
  if (const auto reason = ReasonOf(status)) {
    impl_->dropped[static_cast<size_t>(*reason)]->Increment(static_cast<double>(job.cost.problems));
  }
}

void Metrics::OnDeviceLost(const DeviceDescription& device) {
  impl_->devices.at(device.index).lost->Set(1);
}

void Metrics::SetGauges(Gauges gauges) { impl_->live_gauges->Set(std::move(gauges)); }
void Metrics::RemoveGauges() { impl_->live_gauges->Set({}); }

std::vector<std::shared_ptr<prometheus::Collectable>> Metrics::collectables() const {
  return {impl_->registry, impl_->live_gauges, impl_->process};
}

}  // namespace gemm
