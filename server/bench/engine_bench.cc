// engine_bench: what the engine makes of its devices, without gRPC.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/bench/closed_loop.h"
#include "server/engine/cpu_device.h"
#include "server/engine/engine.h"
#if GEMMD_WITH_CUDA
#include "server/bench/plain_cuda.h"
#include "server/engine/cuda_device.h"
#endif

namespace gemm::bench {
namespace {

constexpr char kFooter[] = R"(
Parts, each of f32 products from callers in this process:

  batches  products/s of small jobs when as many wait as can: the engine, against the same engine
           with one lane and batches of one job, and against a loop of copy, launch, copy, wait
  latency  one caller's time of one small product, and what the queue took of it
  stream   large products with fresh operands, against the longer of their upload and their kernel
  busy     large products of matrices that stay on the device: the part of the time that their
           kernels alone would take
  beside   one caller's small products, alone and beside a stream of large ones
  devices  products/s with one device and with all; "bus" is what copies allow: the rate of plain
           copies, in and out, over the bytes of a product, here and in batches

Contenders take turns; a figure is the median of the rounds. The results of every job are checked.)";

struct Flags {
  std::vector<std::string> parts = {"batches", "latency", "stream", "busy", "beside", "devices"};
  std::string device = "cuda";
  std::string force_kernel;
  bool tiny = false;  // sizes and times of a smoke test
  int rounds = 5;
  double seconds = 0.3;  // of a round
  int callers = 6;
  int jobs_each = 48;
};

class NoObserver final : public EngineObserver {
 public:
  void OnBatch(const Batch& batch) override {
    batches += 1;
    problems += batch.problems;
  }
  void OnDropped(const Job&, const absl::Status&) override {}
  void OnDeviceLost(const DeviceDescription&) override {}

  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> problems{0};
};

using Devices = std::vector<std::unique_ptr<Device>>;

// An engine and what it needs.
struct Bench {
  NoObserver observer;
  SteadyClock clock;
  std::unique_ptr<Engine> engine;
};

Devices Open([[maybe_unused]] const Flags& flags) {
#if GEMMD_WITH_CUDA
  if (flags.device == "cuda") {
    auto devices = OpenCudaDevices({.force_kernel = flags.force_kernel, .memory_fraction = 0.2});
    if (!devices.ok()) {
      std::fprintf(stderr, "engine_bench: %s\n", devices.status().ToString().c_str());
      std::exit(1);
    }
    return *std::move(devices);
  }
#endif
  Devices devices;
  devices.push_back(OpenCpuDevice());
  return devices;
}

enum class Mode { kProduct, kOneAtATime };

std::unique_ptr<Bench> MakeBench(const Flags& flags, Mode mode, size_t most_devices = 1,
                                 uint64_t host_bytes = uint64_t{2} << 30) {
  Devices devices = Open(flags);
  if (devices.size() > most_devices) devices.resize(most_devices);
  EngineOptions options;
  options.host_memory_budget_bytes = host_bytes;
  options.queue.bytes = host_bytes;
  options.small_jobs_on_callers_thread = mode == Mode::kProduct;
  if (mode == Mode::kOneAtATime) {
    options.queue.batch_seconds = 0;
    options.lanes_per_device = 1;
  }
  auto bench = std::make_unique<Bench>();
  bench->engine =
      std::make_unique<Engine>(options, std::move(devices), bench->clock, bench->observer);
  return bench;
}

// Products/s that copies to and from so many GPUs allow; 0 where there is no bus.
double BusBound([[maybe_unused]] const Flags& flags, [[maybe_unused]] size_t devices,
                [[maybe_unused]] const Problem& p) {
#if GEMMD_WITH_CUDA
  if (flags.device == "cuda") {
    const auto in = static_cast<double>(p.m * p.k + p.k * p.n);
    const auto out = static_cast<double>(p.m * p.n);
    return MeasureBus(static_cast<int>(devices), out / in, flags.rounds) / (in * sizeof(float));
  }
#endif
  return 0;
}

Problem Cube(int64_t size) { return DenseProblem(DType::kF32, size, size, size); }

void Batches(const Flags& flags) {
  std::printf("\nbatches: products/s, %d callers with %d jobs each\n", flags.callers,
              flags.jobs_each);
  std::printf("%-10s %12s %10s %12s %12s %8s %8s %12s\n", "size", "engine", "a batch", "one a time",
              "plain loop", "ratio", "to loop", "bus");
  struct Row {
    std::string name;
    std::vector<Problem> problems;
  };
  std::vector<Row> rows;
  for (const int64_t size :
       flags.tiny ? std::vector<int64_t>{8} : std::vector<int64_t>{64, 96, 128, 192, 256}) {
    rows.push_back({absl::StrCat(size), {Cube(size)}});
  }
  if (!flags.tiny) {
    rows.push_back(
        {"mix",
         {Cube(64), Cube(96), Cube(128), Cube(192), Cube(256),
          DenseProblem(DType::kF32, 100, 60, 200), DenseProblem(DType::kF32, 32, 250, 77)}});
  }
  for (const Row& row : rows) {
    const auto product = MakeBench(flags, Mode::kProduct);
    const auto single = MakeBench(flags, Mode::kOneAtATime);
    const Load load{row.problems, flags.callers, flags.jobs_each};
    ClosedLoop product_loop(*product->engine, load);
    ClosedLoop single_loop(*single->engine, load);
    std::vector<double> ours;
    std::vector<double> ones;
    const uint64_t batches = product->observer.batches;
    const uint64_t problems = product->observer.problems;
    for (int round = 0; round < flags.rounds; ++round) {
      ours.push_back(product_loop.Run(flags.seconds).products_per_second());
      ones.push_back(single_loop.Run(flags.seconds).products_per_second());
    }
    const double a_batch = static_cast<double>(product->observer.problems - problems) /
                           static_cast<double>(product->observer.batches - batches);
    double plain = 0;
    double bus = 0;
#if GEMMD_WITH_CUDA
    if (flags.device == "cuda" && row.problems.size() == 1) {
      plain = 1 / MeasurePlainCuda(row.problems[0], flags.force_kernel, flags.rounds).loop_s;
      bus = BusBound(flags, 1, row.problems[0]);
    }
#endif
    std::printf("%-10s %12.0f %10.1f %12.0f %12.0f %8.2f %8.2f %12.0f\n", row.name.c_str(),
                Median(ours), a_batch, Median(ones), plain, Median(ours) / Median(ones),
                plain > 0 ? Median(ours) / plain : 0, bus);
    std::fflush(stdout);
  }
}

void Latency(const Flags& flags) {
  std::printf("\nlatency: one caller, us\n%-10s %10s %10s %10s %10s %10s\n", "size", "p50", "p99",
              "queue p50", "queue p99", "plain loop");
  const auto bench = MakeBench(flags, Mode::kProduct);
  for (const int64_t size :
       flags.tiny ? std::vector<int64_t>{8} : std::vector<int64_t>{64, 128, 256, 512}) {
    ClosedLoop loop(*bench->engine, {{Cube(size)}, 1, 1});
    const Measured measured = loop.Run(flags.seconds * 2);
    double plain_us = 0;
#if GEMMD_WITH_CUDA
    if (flags.device == "cuda") {
      plain_us = 1e6 * MeasurePlainCuda(Cube(size), flags.force_kernel, flags.rounds).loop_s;
    }
#endif
    std::printf("%-10s %10.1f %10.1f %10.1f %10.1f %10.1f\n", absl::StrCat(size).c_str(),
                Median(measured.call_us), Percentile(measured.call_us, 99),
                Median(measured.queue_us), Percentile(measured.queue_us, 99), plain_us);
  }
}

void Stream(const Flags& flags) {
  const int64_t size = flags.tiny ? 32 : 2048;
  std::printf("\nstream: %d cubed, fresh operands, ms a product\n", static_cast<int>(size));
  const auto bench = MakeBench(flags, Mode::kProduct);
  ClosedLoop loop(*bench->engine, {{Cube(size)}, 1, 8});
  std::vector<double> each;
  each.reserve(static_cast<size_t>(flags.rounds));
  for (int round = 0; round < flags.rounds; ++round) {
    each.push_back(1e3 / loop.Run(flags.seconds * 2).products_per_second());
  }
  std::printf("  engine %.3f", Median(each));
#if GEMMD_WITH_CUDA
  if (flags.device == "cuda") {
    const PlainCuda plain = MeasurePlainCuda(Cube(size), flags.force_kernel, flags.rounds);
    const double bound = 1e3 * std::max(plain.upload_s, plain.kernel_s);
    std::printf(", upload %.3f, kernel %.3f, loop %.3f: %.3f of the bound", 1e3 * plain.upload_s,
                1e3 * plain.kernel_s, 1e3 * plain.loop_s, bound / Median(each));
  }
#endif
  std::printf("\n");
}

void Busy(const Flags& flags) {
  const Problem problem = flags.tiny ? Cube(32) : DenseProblem(DType::kF32, 4096, 8192, 8192);
  std::printf("\nbusy: %d x %d x %d, operands and results on the device, ms a product\n",
              static_cast<int>(problem.m), static_cast<int>(problem.n),
              static_cast<int>(problem.k));
  const auto bench = MakeBench(flags, Mode::kProduct, 1, uint64_t{4} << 30);
  ClosedLoop loop(*bench->engine, {{problem}, 1, 3, true});
  std::vector<double> each;
  std::vector<double> kernel;
  for (int round = 0; round < flags.rounds; ++round) {
    each.push_back(1e3 / loop.Run(flags.seconds * 2).products_per_second());
#if GEMMD_WITH_CUDA
    if (flags.device == "cuda") {
      kernel.push_back(1e3 * MeasurePlainCuda(problem, flags.force_kernel, 3).kernel_s);
    }
#endif
  }
  std::printf("  engine %.3f", Median(each));
  if (!kernel.empty()) {
    std::printf(", kernel %.3f: busy %.3f of the time", Median(kernel),
                Median(kernel) / Median(each));
  }
  std::printf("\n");
}

void Beside(const Flags& flags) {
  const int64_t large = flags.tiny ? 256 : 8192;
  const int64_t small = flags.tiny ? 8 : 64;
  std::printf("\nbeside: one caller of %d cubed, alone and beside a stream of %d cubed, ms\n",
              static_cast<int>(small), static_cast<int>(large));
  const auto bench = MakeBench(flags, Mode::kProduct, 1, uint64_t{5} << 30);
  ClosedLoop small_loop(*bench->engine, {{Cube(small)}, 1, 1});
  const Measured quiet = small_loop.Run(flags.seconds * 2);
  ClosedLoop large_loop(*bench->engine, {{Cube(large)}, 1, flags.tiny ? 2 : 4});
  large_loop.Start();
  absl::SleepFor(absl::Seconds(flags.seconds / 3));
  const Measured loaded = small_loop.Run(flags.tiny ? flags.seconds : 3);
  const Measured stream = large_loop.Stop();
  std::printf("  quiet  p50 %.3f p99 %.3f\n  loaded p50 %.3f p99 %.3f max %.3f, of %zu\n",
              Median(quiet.call_us) / 1e3, Percentile(quiet.call_us, 99) / 1e3,
              Median(loaded.call_us) / 1e3, Percentile(loaded.call_us, 99) / 1e3,
              Percentile(loaded.call_us, 100) / 1e3, loaded.call_us.size());
  std::printf("  stream %.2f ms a product\n", 1e3 / stream.products_per_second());
}

void AllDevices(const Flags& flags) {
  constexpr size_t kAll = 64;
  const size_t count = Open(flags).size();
  std::printf("\ndevices: products/s with 1 and with %zu\n%-8s %12s %12s %8s %12s %12s %8s\n",
              count, "size", "one", "all", "ratio", "bus, one", "bus, all", "ratio");
  for (const int64_t size :
       flags.tiny ? std::vector<int64_t>{8} : std::vector<int64_t>{128, 2048, 8192}) {
    const uint64_t host_bytes = (size > 5000 ? uint64_t{6} : uint64_t{2}) << 30;
    const auto one = MakeBench(flags, Mode::kProduct, 1, host_bytes);
    const auto all = MakeBench(flags, Mode::kProduct, kAll, host_bytes);
    // As many jobs for one device as for all, enough that some wait.
    const int callers = flags.callers * (size > 5000 ? 1 : static_cast<int>(count));
    const int jobs_each = size > 5000 ? 1 : size > 1000 ? 3 : flags.jobs_each;
    const double seconds = flags.seconds * (size > 5000 ? 4 : 1);
    const Load load{{Cube(size)}, callers, jobs_each};
    ClosedLoop one_loop(*one->engine, load);
    ClosedLoop all_loop(*all->engine, load);
    std::vector<double> with_one;
    std::vector<double> with_all;
    for (int round = 0; round < flags.rounds; ++round) {
      with_one.push_back(one_loop.Run(seconds).products_per_second());
      with_all.push_back(all_loop.Run(seconds).products_per_second());
    }
    const double bus_one = BusBound(flags, 1, Cube(size));
    const double bus_all = BusBound(flags, count, Cube(size));
    std::printf("%-8d %12.1f %12.1f %8.2f %12.1f %12.1f %8.2f\n", static_cast<int>(size),
                Median(with_one), Median(with_all), Median(with_all) / Median(with_one), bus_one,
                bus_all, bus_one > 0 ? bus_all / bus_one : 0);
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Measures the engine without gRPC.", "engine_bench"};
  app.footer(kFooter);
  app.add_option("parts", flags.parts, "What to measure")->capture_default_str();
  app.add_option("--device", flags.device)
      ->check(CLI::IsMember({"cuda", "cpu"}))
      ->capture_default_str();
  app.add_option("--force-kernel", flags.force_kernel, "The only kernel to use");
  app.add_flag("--tiny", flags.tiny, "Sizes of a smoke test");
  app.add_option("--rounds", flags.rounds)->capture_default_str();
  app.add_option("--seconds", flags.seconds, "Of a round")->capture_default_str();
  app.add_option("--callers", flags.callers)->capture_default_str();
  app.add_option("--jobs", flags.jobs_each, "Of each caller, under way at once")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const std::vector<std::pair<std::string, void (*)(const Flags&)>> parts = {
      {"batches", Batches}, {"latency", Latency}, {"stream", Stream},
      {"busy", Busy},       {"beside", Beside},   {"devices", AllDevices}};
  for (const std::string& asked : flags.parts) {
    bool known = false;
    for (const auto& [name, run] : parts) {
      if (name != asked) continue;
      run(flags);
      known = true;
    }
    if (!known) {
      std::fprintf(stderr, "engine_bench: no part is named '%s'\n", asked.c_str());
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace gemm::bench

int main(int argc, char** argv) {
  try {
    return gemm::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
