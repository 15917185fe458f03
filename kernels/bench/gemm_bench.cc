// gemm_bench: checks every kernel on this machine's GPU and measures it.
//
//   gemm_bench --mode=check                 right answers, every kernel, every shape of shapes.cc
//   gemm_bench --mode=bench 4096 4096 4096  time of every kernel that can run m x n x k
//
// Exits with 1 when a kernel failed a check, 2 when the device could not be used.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/bench/device_check.h"
#include "kernels/bench/timing.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"

namespace gemm {
namespace {

enum class Mode { kCheck, kBench };

struct Flags {
  Mode mode = Mode::kCheck;
  std::vector<std::string> dtypes = {"f32", "f64"};
  std::string kernel;
  int device = 0;
  bool quick = false;
  bool large = false;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t batch_count = 1;
  std::vector<int64_t> shape;
};

int Fail(const char* what, cudaError_t error) {
  std::fprintf(stderr, "gemm_bench: %s: %s\n", what, CudaErrorText(error).c_str());
  return 2;
}

std::vector<DType> DTypes(const Flags& flags) {
  std::vector<DType> dtypes;
  for (const std::string& name : flags.dtypes) {
    dtypes.push_back(name == "f64" ? DType::kF64 : DType::kF32);
  }
  return dtypes;
}

int RunCheck(const Flags& flags, const DeviceInfo& device) {
  const CaseSet set = flags.quick ? CaseSet::kQuick : CaseSet::kFull;
  CheckReport report;
  for (DType dtype : DTypes(flags)) {
    if (!report.device_lost) {
      report.Merge(CheckFamilies(Families(), device, dtype, set, flags.kernel));
    }
    if (flags.large && !report.device_lost) {
      report.Merge(CheckLarge(Families(), device, dtype, flags.kernel));
    }
  }
  std::printf("%-26s %8s %8s %12s  %s\n", "kernel", "passed", "failed", "worst ratio", "where");
  for (const KernelTally& tally : report.kernels) {
    std::printf("%-26s %8d %8d %12.3f  %s\n", tally.kernel.c_str(), tally.passed, tally.failed,
                tally.worst_ratio, tally.worst_case.c_str());
  }
  constexpr size_t kShown = 40;
  for (size_t i = 0; i < report.failures.size() && i < kShown; ++i) {
    const CheckFailure& failure = report.failures[i];
    std::printf("FAILED %s: %s: %s: %s\n", failure.kernel.c_str(), failure.case_name.c_str(),
                failure.checker.c_str(), failure.fault.c_str());
  }
  if (report.failures.size() > kShown) {
    std::printf("and %zu more failures\n", report.failures.size() - kShown);
  }
  std::printf("%d passed, %d failed%s\n", report.passed(), report.failed(),
              report.device_lost ? "; the device was lost, the rest did not run" : "");
  if (report.passed() == 0) {
    std::printf("nothing was checked\n");
    return 1;
  }
  return report.failed() == 0 ? 0 : 1;
}

Problem BenchProblem(const Flags& flags, DType dtype) {
  Problem problem =
      DenseProblem(dtype, flags.shape[0], flags.shape[1], flags.shape[2], flags.batch_count);
  problem.a.transposed = flags.transpose_a;
  problem.b.transposed = flags.transpose_b;
  problem.a.ld = std::max<int64_t>(1, StoredA(problem).columns);
  problem.b.ld = std::max<int64_t>(1, StoredB(problem).columns);
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.d}) layout->alignment_bytes = 256;
  return problem;
}

int RunBench(const Flags& flags, const DeviceInfo& device) {
  if (flags.shape.size() != 3) {
    std::fprintf(stderr, "gemm_bench: --mode=bench needs M N K\n");
    return 2;
  }
  int failed = 0;
  for (DType dtype : DTypes(flags)) {
    const Problem problem = BenchProblem(flags, dtype);
    if (const auto fault = Validate(problem)) {
      std::fprintf(stderr, "gemm_bench: %s %s\n", fault->field.c_str(), fault->message.c_str());
      return 2;
    }
    if (IsEmpty(problem)) {
      std::fprintf(stderr, "gemm_bench: an empty result has no speed\n");
      return 2;
    }
    std::vector<KernelTiming> timings;
    if (const cudaError_t error = TimeKernels(Families(), device, problem, flags.kernel, &timings);
        error != cudaSuccess) {
      return Fail("timing", error);
    }
    std::printf("%s %lldx%lldx%lld %c%c batch %lld\n", std::string(NameOf(dtype)).c_str(),
                static_cast<long long>(problem.m), static_cast<long long>(problem.n),
                static_cast<long long>(problem.k), problem.a.transposed ? 'T' : 'N',
                problem.b.transposed ? 'T' : 'N', static_cast<long long>(problem.batch_count));
    std::printf("  %-26s %12s %9s %8s %14s\n", "kernel", "us", "TFLOP/s", "spread", "modelled us");
    for (const KernelTiming& timing : timings) {
      if (!timing.fault.empty()) {
        ++failed;
        std::printf("  %-26s FAILED its check: %s\n", timing.kernel.c_str(), timing.fault.c_str());
        continue;
      }
      std::printf("  %-26s %12.2f %9.3f %7.1f%% %14.2f%s\n", timing.kernel.c_str(),
                  1e6 * timing.seconds, 1e-12 * FlopCount(problem) / timing.seconds,
                  100 * timing.spread, 1e6 * timing.modelled_seconds,
                  timing.selected ? "  <- selected" : "");
    }
  }
  return failed == 0 ? 0 : 1;
}

int Run(const Flags& flags) {
  if (const cudaError_t error = cudaSetDevice(flags.device); error != cudaSuccess) {
    return Fail("cudaSetDevice", error);
  }
  DeviceInfo device;
  if (const cudaError_t error = ReadDeviceInfo(flags.device, &device); error != cudaSuccess) {
    return Fail("device", error);
  }
  std::printf(
      "%s, compute capability %d.%d, %d multiprocessors, %.1f TFLOP/s f32, %.1f f64, "
      "%.2f TB/s by its clocks\n",
      device.name.c_str(), device.compute_capability / 10, device.compute_capability % 10,
      device.multiprocessors, 1e-12 * device.f32_flops_per_second,
      1e-12 * device.f64_flops_per_second, 1e-12 * device.memory_bytes_per_second);
  return flags.mode == Mode::kCheck ? RunCheck(flags, device) : RunBench(flags, device);
}

}  // namespace
}  // namespace gemm

// CLI11 throws out of here only if the flags below are declared wrongly.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  gemm::Flags flags;
  CLI::App app{"Checks and measures the GEMM kernels on this machine's GPU"};
  const std::map<std::string, gemm::Mode> modes = {{"check", gemm::Mode::kCheck},
                                                   {"bench", gemm::Mode::kBench}};
  app.add_option("--mode", flags.mode, "check or bench")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case));
  app.add_option("--dtype", flags.dtypes, "f32, f64 or both (f32,f64)")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is the shape
      ->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--kernel", flags.kernel, "only the kernel of this full name");
  app.add_option("--device", flags.device, "CUDA's number of the GPU");
  app.add_flag("--quick", flags.quick, "check: a few small shapes, for compute-sanitizer");
  app.add_flag("--large", flags.large, "check: also operands beyond 2^31 elements (40 GB)");
  app.add_flag("--ta", flags.transpose_a, "bench: A is stored transposed");
  app.add_flag("--tb", flags.transpose_b, "bench: B is stored transposed");
  app.add_option("--batch", flags.batch_count, "bench: products of the shape in one launch");
  app.add_option("shape", flags.shape, "bench: M N K")->expected(3);
  CLI11_PARSE(app, argc, argv);
  return gemm::Run(flags);
}
