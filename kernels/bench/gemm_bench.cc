// gemm_bench: checks every kernel on this machine's GPU, measures it, and tunes the choice.
//
//   --mode=check                     right answers, every kernel, every shape of shapes.cc
//   --mode=bench SHAPES              the chosen kernel beside cuBLAS; --all: every kernel
//   --mode=ladder                    the articles' rungs and what became of their claims
//   --mode=tune --out FILE           measures the grid, writes the table of choices
//   --mode=regret --shapes=random:1  chosen against best, where nothing was tuned
//   --mode=repeat SHAPES             every kernel over and over: the same bits each time
//   --mode=group                     many small products: one launch, a launch each, and cuBLAS
//   --mode=explain M N K             what would run on an H200, and why; needs no GPU
//
// Exits with 1 when a kernel failed a check, 2 when it could not be run.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/measured_times.h"
#include "kernels/bench/modes.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"

namespace gemm {
namespace {

// Of --table.
std::optional<RecordedTable> recorded_table;

bool IsKernel(std::string_view name) {
  for (const KernelFamily* family : Families()) {
    for (const KernelConfig& config : family->configs()) {
      if (config.name == name) return true;
    }
  }
  return false;
}

bool ReadTable(const std::string& path) {
  std::vector<ShapeTimes> times;
  if (!ReadTimes(path, &times)) return false;
  KeepLegal(H200(), &times);
  recorded_table.emplace(std::move(times));
  return true;
}

}  // namespace

std::vector<DType> DTypes(const Flags& flags) {
  std::vector<DType> dtypes;
  for (const std::string& name : flags.dtypes) {
    dtypes.push_back(name == "f64" ? DType::kF64 : DType::kF32);
  }
  return dtypes;
}

std::string OpenDevice(const Flags& flags, DeviceInfo* device) {
  if (const cudaError_t error = cudaSetDevice(flags.device); error != cudaSuccess) {
    return "cudaSetDevice: " + CudaErrorText(error);
  }
  if (const cudaError_t error = ReadDeviceInfo(flags.device, device); error != cudaSuccess) {
    return "device: " + CudaErrorText(error);
  }
  if (flags.portable) *device = Portable(*device);
  return {};
}

TuningTable TableFor(const Flags& flags, const DeviceInfo& device) {
  if (flags.no_table) return {};
  return recorded_table ? recorded_table->table() : TuningFor(device);
}

int Refuse(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "gemm_bench: %s\n", what.c_str());
  return 2;
}

}  // namespace gemm

// CLI11 throws out of here only if the flags below are declared wrongly.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  using Mode = int (*)(const gemm::Flags&);
  gemm::Flags flags;
  std::string mode = "check";
  for (int i = 0; i < argc; ++i) {
    flags.command += (i == 0 ? "" : " ") + std::string(i == 0 ? "gemm_bench" : argv[i]);
  }
  const std::map<std::string, Mode> modes = {
      {"check", gemm::RunCheck}, {"bench", gemm::RunBench},    {"ladder", gemm::RunLadder},
      {"tune", gemm::RunTune},   {"regret", gemm::RunRegret},  {"repeat", gemm::RunRepeat},
      {"group", gemm::RunGroup}, {"explain", gemm::RunExplain}};
  CLI::App app{"Checks and measures the GEMM kernels, and tunes the choice among them"};
  app.add_option("--mode", mode, "check, bench, ladder, tune, regret, repeat, group or explain")
      ->check(CLI::IsMember(
          {"check", "bench", "ladder", "tune", "regret", "repeat", "group", "explain"}));
  app.add_option("--dtype", flags.dtypes, "f32, f64 or both (f32,f64)")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows are shapes
      ->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--kernel", flags.kernel,
                 "check, bench, repeat, group: only the kernel of this full name");
  app.add_option("--device", flags.device, "CUDA's number of the GPU");
  app.add_flag("--portable", flags.portable,
               "only what runs on every GPU, chosen by the model alone, as on one of another kind");
  app.add_flag("--quick", flags.quick, "check: a few small shapes, for compute-sanitizer");
  app.add_flag("--large", flags.large, "check: also operands beyond 2^31 elements (40 GB)");
  app.add_flag("--all", flags.all, "bench: every legal kernel");
  app.add_flag("--no-table", flags.no_table, "choose by the cost model alone");
  app.add_flag("--unseen", flags.unseen,
               "regret --from: choose for each product without its own rows");
  app.add_option("--shapes", flags.shapes,
                 "list, deepbench, golden, random:SEED[:COUNT] or spread:SEED[:COUNT]");
  app.add_option("--budget", flags.budget, "seconds after which no new shape is begun");
  app.add_option("--shape-seconds", flags.shape_seconds,
                 "seconds of replays for each shape; repeat: for each kernel");
  app.add_option("--json", flags.json, "write JSON lines to this file");
  app.add_option("--out", flags.out, "tune: write the table to this file");
  app.add_option("--from", flags.from, "tune, regret: take the times from this file");
  app.add_option("--table", flags.table, "choose by the times in this file, not the built table");
  app.add_option("--commit", flags.commit, "recorded with the figures");
  app.add_option("shape", flags.words, "MxNxK, MxNxKbBATCH, MxNxK:TN, or one as M N K");
  CLI11_PARSE(app, argc, argv);
  if (!flags.kernel.empty() && !gemm::IsKernel(flags.kernel)) {
    return gemm::Refuse("no kernel is named " + flags.kernel + "; --mode=explain 1 1 1 names all");
  }
  if (!flags.table.empty() && !gemm::ReadTable(flags.table)) {
    return gemm::Refuse("cannot read times from " + flags.table);
  }
  return modes.at(mode)(flags);
}
