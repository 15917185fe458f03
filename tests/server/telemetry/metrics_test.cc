#include "server/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/telemetry/metrics_page.h"
#include "tests/server/telemetry/http_client.h"

namespace gemm {
namespace {

using ::testing::ContainerEq;

template <typename Delimiter>
std::vector<std::string> Split(const std::string& text, Delimiter delimiter) {
  return absl::StrSplit(text, delimiter, absl::SkipEmpty());
}

struct Sample {
  std::map<std::string, std::string> labels;
  double value = 0;
};

// A page taken apart. Histograms and summaries keep their suffixes in `samples`.
struct Page {
  std::map<std::string, std::string> types;  // by metric
  std::map<std::string, std::vector<Sample>> samples;

  explicit Page(const std::string& text) {
    for (const std::string& line : Split(text, '\n')) {
      if (absl::StartsWith(line, "# TYPE ")) {
        const std::vector<std::string> words = Split(line, ' ');
        types[words.at(2)] = words.at(3);
      }
      const size_t value = line.rfind(' ');
      if (line.empty() || line.front() == '#' || value == std::string::npos) continue;
      const size_t brace = line.find('{');
      Sample sample;
      EXPECT_TRUE(absl::SimpleAtod(line.substr(value + 1), &sample.value)) << line;
      if (brace != std::string::npos) {
        const std::string labels = line.substr(brace + 1, line.rfind('}') - brace - 1);
        for (const std::string& label : Split(labels, "\",")) {
          const std::vector<std::string> pair = absl::StrSplit(label, absl::MaxSplits("=\"", 1));
          sample.labels[pair.at(0)] = absl::StrJoin(Split(pair.at(1), '"'), "");
        }
      }
      samples[line.substr(0, std::min(brace, value))].push_back(sample);
    }
  }

  // The labels of a metric, without those that its type brings.
  std::set<std::string> LabelsOf(const std::string& metric) const {
    std::set<std::string> names;
    for (const char* suffix : {"", "_bucket", "_count"}) {
      const auto it = samples.find(metric + suffix);
      if (it == samples.end()) continue;
      for (const Sample& sample : it->second) {
        for (const auto& [name, value] : sample.labels) names.insert(name);
      }
    }
    names.erase("le");
    names.erase("quantile");
    return names;
  }

  double Value(const std::string& metric, const std::map<std::string, std::string>& labels) const {
    const auto it = samples.find(metric);
    if (it != samples.end()) {
      for (const Sample& sample : it->second) {
        if (sample.labels == labels) return sample.value;
      }
    }
    ADD_FAILURE() << "no " << metric << "{" << absl::StrJoin(labels, ",", absl::PairFormatter("="))
                  << "}";
    return -1;
  }
};

// The rows "| `name` | type | `label`, `label` | ..." of README.md, as "type label label" by name.
std::map<std::string, std::string> Documented() {
  std::map<std::string, std::string> rows;
  std::ifstream readme(TELEMETRY_README);
  EXPECT_TRUE(readme.is_open()) << TELEMETRY_README;
  for (std::string line; std::getline(readme, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    const auto words = [](const std::string& cell) { return Split(cell, absl::ByAnyChar("`, ")); };
    const std::vector<std::string> labels = words(cells.at(3));
    std::vector<std::string> row = words(cells.at(2));
    for (const std::string& label : std::set<std::string>(labels.begin(), labels.end())) {
      row.push_back(label);
    }
    EXPECT_TRUE(rows.emplace(words(cells.at(1)).at(0), absl::StrJoin(row, " ")).second) << line;
  }
  return rows;
}

class MetricsTest : public ::testing::Test {
 protected:
  Page Scrape() {
    const std::string reply = SendToMetricsPage((*page_)->port(), "GET /metrics HTTP/1.0\r\n\r\n");
    return Page(reply.substr(reply.find("\r\n\r\n")));
  }

  static MetricsOptions TestOptions() {
    DeviceDescription device;
    device.index = 3;
    device.name = "Test GPU";
    device.uuid = "GPU-1";
    device.kind = "cuda";
    device.ceiling_flops_per_second = {6e13, 3e13};
    DeviceDescription other = device;
    other.index = 5;
    other.uuid = "GPU-2";
    return {"1.2.3", "abcdef", {"naive", "tiled"}, {device, other}};
  }

  Metrics metrics_{TestOptions()};
  const absl::StatusOr<std::unique_ptr<MetricsPage>> page_ =
      MetricsPage::Serve("127.0.0.1", 0, metrics_);
};

TEST_F(MetricsTest, ThePageIsWhatTheReadmeSays) {
  const Page page = Scrape();
  std::map<std::string, std::string> exported;
  for (const auto& [metric, type] : page.types) {
    std::vector<std::string> row = {type};
    for (const std::string& label : page.LabelsOf(metric)) row.push_back(label);
    exported[metric] = absl::StrJoin(row, " ");
  }
  EXPECT_THAT(exported, ContainerEq(Documented()));
}

TEST_F(MetricsTest, EveryKnownSeriesIsThereFromTheStart) {
  const Page page = Scrape();
  const std::map<std::string, size_t> series = {
      {"grpc_server_started_total", kRpcMethodCount},
      {"grpc_server_handled_total", kRpcMethodCount * 17},
      {"grpc_server_handling_seconds_count", kRpcMethodCount},
      {"gemmd_phase_seconds_count", kPhaseCount},
      {"gemmd_kernel_launches_total", 2 * 3 * 2},  // with "other"
      {"gemmd_flops_total", 2 * 2},
      {"gemmd_device_seconds_total", 2 * 2},
      {"gemmd_bytes_total", 4},
      {"gemmd_refused_total", kReasonCount},
      {"gemmd_dropped_total", kReasonCount},
      {"gemmd_batch_problems_count", 1},
      {"gemmd_queue_problems", 1},
      {"gemmd_queue_bytes", 1},
      {"gemmd_queue_flops", 1},
      {"gemmd_running_problems", 1},
      {"gemmd_budget_limit_bytes", 4},
      {"gemmd_budget_used_bytes", 4},
      {"gemmd_host_memory_reserved_bytes", 1},
      {"gemmd_matrices", 1},
      {"gemmd_device_lost", 2},
  };
  for (const auto& [metric, count] : series) {
    const auto it = page.samples.find(metric);
    ASSERT_NE(it, page.samples.end()) << metric;
    EXPECT_EQ(it->second.size(), count) << metric;
    for (const Sample& sample : it->second) EXPECT_EQ(sample.value, 0) << metric;
  }
}

TEST_F(MetricsTest, InfoMetricsDescribeTheServer) {
  const Page page = Scrape();
  EXPECT_EQ(page.Value("gemmd_build_info", {{"version", "1.2.3"}, {"commit", "abcdef"}}), 1);
  EXPECT_EQ(
      page.Value("gemmd_device_info",
                 {{"device", "3"}, {"name", "Test GPU"}, {"uuid", "GPU-1"}, {"kind", "cuda"}}),
      1);
  const char* ceiling = "gemmd_device_ceiling_flops_per_second";
  EXPECT_EQ(page.Value(ceiling, {{"device", "3"}, {"dtype", "f32"}}), 6e13);
  EXPECT_EQ(page.Value(ceiling, {{"device", "5"}, {"dtype", "f64"}}), 3e13);
}

TEST_F(MetricsTest, CallsAreCounted) {
  metrics_.CallStarted(RpcMethod::kMultiply);
  metrics_.CallHandled(RpcMethod::kMultiply, 14, absl::Milliseconds(4));
  metrics_.CallHandled(RpcMethod::kHealthWatch, 1000, absl::ZeroDuration());
  metrics_.ObservePhase(Phase::kSend, absl::Milliseconds(3));
  metrics_.AddBytes(Direction::kIn, uint64_t{5} << 30);
  metrics_.AddBytes(Direction::kOut, 7, Road::kResident);
  metrics_.CountRefused(Reason::kQueueFull);
  const Page page = Scrape();
  std::map<std::string, std::string> method = {
      {"grpc_type", "unary"}, {"grpc_service", "gemm.v1.GemmService"}, {"grpc_method", "Multiply"}};
  EXPECT_EQ(page.Value("grpc_server_started_total", method), 1);
  EXPECT_EQ(page.Value("grpc_server_handling_seconds_count", method), 1);
  EXPECT_DOUBLE_EQ(page.Value("grpc_server_handling_seconds_sum", method), 0.004);
  method["grpc_code"] = "UNAVAILABLE";
  EXPECT_EQ(page.Value("grpc_server_handled_total", method), 1);
  EXPECT_EQ(page.Value("grpc_server_handled_total", {{"grpc_type", "server_stream"},
                                                     {"grpc_service", "grpc.health.v1.Health"},
                                                     {"grpc_method", "Watch"},
                                                     {"grpc_code", "UNKNOWN"}}),
            1);
  EXPECT_EQ(page.Value("gemmd_phase_seconds_count", {{"phase", "send"}}), 1);
  EXPECT_EQ(page.Value("gemmd_bytes_total", {{"road", "inline"}, {"direction", "in"}}), 5368709120);
  EXPECT_EQ(page.Value("gemmd_bytes_total", {{"road", "resident"}, {"direction", "out"}}), 7);
  EXPECT_EQ(page.Value("gemmd_refused_total", {{"reason", "QUEUE_FULL"}}), 1);
}

TEST_F(MetricsTest, ProductsAreCounted) {
  JobProduct good;
  good.problem = DenseProblem(DType::kF64, 2, 3, 5, 7);
  good.report.kernel_family = "tiled";
  good.report.launches = 2;
  good.report.compute = absl::Microseconds(20);
  JobProduct failed = good;
  failed.report.kernel_family = "never announced";
  failed.status = ErrorWithReason(Reason::kDeviceFailed, "failed");
  JobProduct refused;  // before it came here
  refused.status = ErrorWithReason(Reason::kInvalidRequest, "no");
  JobProduct empty;
  empty.problem = DenseProblem(DType::kF64, 0, 3, 5);
  JobProduct scaled = good;
  scaled.problem.alpha = 0;  // nothing is multiplied

  Batch batch;
  batch.problems = 4;
  batch.device = 3;
  batch.compute = absl::Microseconds(20);
  Job& mixed = *batch.jobs.emplace_back(std::make_unique<Job>());
  mixed.products = {good, failed, refused, empty, scaled};
  Job& unwanted = *batch.jobs.emplace_back(std::make_unique<Job>());
  unwanted.products = {good};
  unwanted.cancel = std::make_shared<CancelToken>();
  unwanted.cancel->Cancel();
  metrics_.OnBatch(batch);

  Batch elsewhere;
  elsewhere.problems = 1;
  elsewhere.device = 5;
  elsewhere.compute = absl::Microseconds(30);
  elsewhere.jobs.emplace_back(std::make_unique<Job>())->products = {good};
  metrics_.OnBatch(elsewhere);

  Job dropped;
  dropped.products = {good, empty, good};
  dropped.cost = CostOf(dropped);
  metrics_.OnDropped(dropped, ErrorWithReason(Reason::kCallerGone, "gone"));

  const Page page = Scrape();
  const auto value = [&page](const char* metric, const char* device,
                             std::map<std::string, std::string> labels) {
    labels["device"] = device;
    return page.Value(metric, labels);
  };
  const char* seconds = "gemmd_device_seconds_total";
  EXPECT_DOUBLE_EQ(value(seconds, "3", {{"outcome", "delivered"}}), 2 * 5e-6);
  EXPECT_DOUBLE_EQ(value(seconds, "3", {{"outcome", "wasted"}}), 5e-6);
  EXPECT_DOUBLE_EQ(value(seconds, "5", {{"outcome", "delivered"}}), 30e-6);
  EXPECT_EQ(value(seconds, "5", {{"outcome", "wasted"}}), 0);
  const char* launches = "gemmd_kernel_launches_total";
  EXPECT_EQ(value(launches, "3", {{"family", "tiled"}, {"dtype", "f64"}}), 6);
  EXPECT_EQ(value(launches, "3", {{"family", "other"}, {"dtype", "f64"}}), 2);
  EXPECT_EQ(value(launches, "5", {{"family", "tiled"}, {"dtype", "f64"}}), 2);
  EXPECT_EQ(value("gemmd_flops_total", "3", {{"dtype", "f64"}}), 2 * (2 * 2 * 3 * 5 * 7));
  EXPECT_EQ(value("gemmd_flops_total", "3", {{"dtype", "f32"}}), 0);
  EXPECT_EQ(value("gemmd_flops_total", "5", {{"dtype", "f64"}}), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(page.Value("gemmd_batch_problems_count", {}), 2);
  EXPECT_EQ(page.Value("gemmd_batch_problems_sum", {}), 5);
  EXPECT_EQ(page.Value("gemmd_phase_seconds_count", {{"phase", "compute"}}), 4);
  EXPECT_EQ(page.Value("gemmd_phase_seconds_bucket", {{"phase", "compute"}, {"le", "2e-05"}}), 4);
  EXPECT_EQ(page.Value("gemmd_phase_seconds_count", {{"phase", "queue"}}), 4);
  EXPECT_EQ(page.Value("gemmd_dropped_total", {{"reason", "CALLER_GONE"}}), 2);
}

TEST_F(MetricsTest, LostDevicesShow) {
  EXPECT_EQ(Scrape().Value("gemmd_device_lost", {{"device", "3"}}), 0);
  metrics_.OnDeviceLost(TestOptions().devices.front());
  EXPECT_EQ(Scrape().Value("gemmd_device_lost", {{"device", "3"}}), 1);
  EXPECT_EQ(Scrape().Value("gemmd_device_lost", {{"device", "5"}}), 0);
}

TEST_F(MetricsTest, GaugesAreReadWhenScraped) {
  double used = 10;
  metrics_.SetGauges({.queue_problems = [] { return 1; },
                      .queue_bytes = [] { return 2; },
                      .queue_flops = [] { return 3; },
                      .running_problems = [] { return 13; },
                      .host_memory_used_bytes = [&used] { return used; },
                      .host_memory_reserved_bytes = [] { return 20.0; },
                      .host_memory_budget_bytes = [] { return 4; },
                      .device_memory_used_bytes = [] { return 7; },
                      .device_memory_budget_bytes = [] { return 8; },
                      .matrix_memory_used_bytes = [] { return 9; },
                      .matrix_memory_budget_bytes = [] { return 10; },
                      .matrices = [] { return 12; },
                      .admitted_bytes = [] { return 5; },
                      .admission_budget_bytes = [] { return 6; }});
  used = 11;
  const Page page = Scrape();
  EXPECT_EQ(page.Value("gemmd_queue_problems", {}), 1);
  EXPECT_EQ(page.Value("gemmd_queue_bytes", {}), 2);
  EXPECT_EQ(page.Value("gemmd_queue_flops", {}), 3);
  EXPECT_EQ(page.Value("gemmd_running_problems", {}), 13);
  EXPECT_EQ(page.Value("gemmd_budget_used_bytes", {{"pool", "host"}}), 11);
  EXPECT_EQ(page.Value("gemmd_budget_limit_bytes", {{"pool", "host"}}), 4);
  EXPECT_EQ(page.Value("gemmd_budget_used_bytes", {{"pool", "admission"}}), 5);
  EXPECT_EQ(page.Value("gemmd_budget_limit_bytes", {{"pool", "admission"}}), 6);
  EXPECT_EQ(page.Value("gemmd_budget_used_bytes", {{"pool", "device"}}), 7);
  EXPECT_EQ(page.Value("gemmd_budget_limit_bytes", {{"pool", "device"}}), 8);
  EXPECT_EQ(page.Value("gemmd_budget_used_bytes", {{"pool", "matrices"}}), 9);
  EXPECT_EQ(page.Value("gemmd_budget_limit_bytes", {{"pool", "matrices"}}), 10);
  EXPECT_EQ(page.Value("gemmd_host_memory_reserved_bytes", {}), 20);
  EXPECT_EQ(page.Value("gemmd_matrices", {}), 12);

  metrics_.RemoveGauges();
  EXPECT_EQ(Scrape().Value("gemmd_budget_used_bytes", {{"pool", "host"}}), 0);
}

// With room for sanitizers and other work on the machine; README.md has what it says.
TEST_F(MetricsTest, RecordingAndScrapingAreCheap) {
  Batch batch;
  batch.problems = 1;
  batch.device = 5;
  JobProduct& product = batch.jobs.emplace_back(std::make_unique<Job>())->products.emplace_back();
  product.problem = DenseProblem(DType::kF32, 8, 8, 8);
  product.report.kernel_family = "tiled";
  product.report.launches = 1;
  constexpr int kProducts = 1000;
  absl::Duration each = absl::InfiniteDuration();
  for (int round = 0; round < 30; ++round) {  // of which the best had the core to itself
    const absl::Time start = absl::Now();
    for (int i = 0; i < kProducts; ++i) {  // what one Multiply records
      metrics_.CallStarted(RpcMethod::kMultiply);
      for (const Phase phase : {Phase::kAdmit, Phase::kReceive, Phase::kDecode, Phase::kSend}) {
        metrics_.ObservePhase(phase, absl::Microseconds(10));
      }
      metrics_.AddBytes(Direction::kIn, 512);
      metrics_.OnBatch(batch);
      metrics_.AddBytes(Direction::kOut, 256);
      metrics_.AddBytes(Direction::kIn, 0, Road::kResident);
      metrics_.AddBytes(Direction::kOut, 0, Road::kResident);
      metrics_.CallHandled(RpcMethod::kMultiply, 0, absl::Microseconds(100));
    }
    each = std::min(each, (absl::Now() - start) / kProducts);
  }

  std::vector<absl::Duration> scrapes(21);
  for (absl::Duration& scrape : scrapes) {
    const absl::Time start = absl::Now();
    SendToMetricsPage((*page_)->port(), "GET /metrics HTTP/1.0\r\n\r\n");
    scrape = absl::Now() - start;
  }
  std::nth_element(scrapes.begin(), scrapes.begin() + 10, scrapes.end());
  std::cout << "recording a product: " << each << "; a scrape: " << scrapes[10] << "\n";
  EXPECT_LT(each, absl::Microseconds(20));
  EXPECT_LT(scrapes[10], absl::Milliseconds(50));
}

TEST_F(MetricsTest, ProcessMetricsArePlausible) {
  const Page page = Scrape();
  EXPECT_GT(page.Value("process_resident_memory_bytes", {}), 1 << 20);
  EXPECT_GT(page.Value("process_cpu_seconds_total", {}), 0);
  EXPECT_GE(page.Value("process_open_fds", {}), 3);
  EXPECT_GE(page.Value("process_max_fds", {}), page.Value("process_open_fds", {}));
  const double age = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) -
                     page.Value("process_start_time_seconds", {});
  EXPECT_GT(age, -2);  // boot time is known to the second
  EXPECT_LT(age, 3600);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their allocators tell nothing
TEST_F(MetricsTest, TheHeapIsWhatAllocationsHold) {
  const auto used = [this] { return Scrape().Value("gemmd_heap_used_bytes", {}); };
  constexpr double kMiB = 1 << 20;
  const double before = used();
  {
    const std::string large(40 << 20, 'x');  // mapped by itself
    const std::vector<std::string> small(100, std::string(100'000, 'x'));
    EXPECT_NEAR(used() - before, 40 * kMiB + 1e7, kMiB);
  }
  EXPECT_NEAR(used(), before, kMiB);
}
#endif

}  // namespace
}  // namespace gemm
