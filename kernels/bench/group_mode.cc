// group: mixes of small products of random sizes and transposes, grouped into few launches, beside
// a launch for each and beside the peer, in turns.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "kernels/bench/device_fill.h"
#include "kernels/bench/prepared_launch.h"
#include "kernels/bench/session.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr size_t kMaxSets = 32;
constexpr size_t kAlignment = 256;

// Sizes from 16 to `most`, one in four operands transposed.
std::vector<Problem> Mix(int count, int most, uint64_t seed) {
  std::vector<Problem> problems;
  uint64_t index = 0;
  const auto draw = [&](uint64_t range) { return RandomBits(seed, index++) % range; };
  for (int i = 0; i < count; ++i) {
    const auto size = [&] {
      return static_cast<int64_t>(16 + draw(static_cast<uint64_t>(most) - 15));
    };
    const int64_t m = size();
    const int64_t n = size();
    Problem problem = DenseProblem(DType::kF32, m, n, size());
    problem.a.transposed = draw(4) == 0;
    problem.b.transposed = draw(4) == 0;
    problem.a.ld = StoredA(problem).columns;
    problem.b.ld = StoredB(problem).columns;
    problems.push_back(problem);
  }
  return problems;
}

// The mix's operands, several times over, so that they rotate through twice the L2 cache.
class Arena {
 public:
  cudaError_t Create(std::span<const Problem> problems, const DeviceInfo& device,
                     cudaStream_t stream) {
    size_t inputs = 0;
    size_t results = 0;
    const auto take = [](size_t* at, int64_t elements) {
      const size_t offset = *at;
      *at += (static_cast<size_t>(elements) * sizeof(float) + kAlignment - 1) / kAlignment *
             kAlignment;
      return offset;
    };
    struct Offsets {
      size_t a, b, d;
    };
    std::vector<Offsets> offsets;
    for (const Problem& p : problems) {
      Offsets& at = offsets.emplace_back();
      at.a = take(&inputs, p.m * p.k);
      at.b = take(&inputs, p.k * p.n);
      at.d = take(&results, p.m * p.n);
    }
    const size_t sets =
        std::min(kMaxSets, 2 * device.l2_bytes / std::max<size_t>(1, inputs + results) + 1);
    GEMM_RETURN_IF_CUDA_ERROR(inputs_.Create(inputs * sets));
    GEMM_RETURN_IF_CUDA_ERROR(results_.Create(results * sets));
    GEMM_RETURN_IF_CUDA_ERROR(DeviceFill(DType::kF32, inputs_.data(),
                                         static_cast<int64_t>(inputs * sets / sizeof(float)),
                                         Fill::kReals, 5, stream));
    for (size_t s = 0; s < sets; ++s) {
      char* const from = static_cast<char*>(inputs_.data()) + s * inputs;
      char* const to = static_cast<char*>(results_.data()) + s * results;
      std::vector<Operands>& set = sets_.emplace_back();
      for (const Offsets& at : offsets) {
        set.push_back({from + at.a, from + at.b, nullptr, to + at.d});
      }
    }
    result_bytes_ = results;
    return cudaStreamSynchronize(stream);
  }

  const std::vector<std::vector<Operands>>& sets() const { return sets_; }

  // What the first set's results are after one launch into NaNs.
  cudaError_t Results(const std::function<cudaError_t(cudaStream_t)>& launch, cudaStream_t stream,
                      std::vector<float>* values) const {
    GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(results_.data(), 0xff, result_bytes_, stream));
    GEMM_RETURN_IF_CUDA_ERROR(launch(stream));
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
    values->resize(result_bytes_ / sizeof(float));
    return cudaMemcpy(values->data(), results_.data(), result_bytes_, cudaMemcpyDeviceToHost);
  }

 private:
  DeviceBuffer inputs_;
  DeviceBuffer results_;
  size_t result_bytes_ = 0;
  std::vector<std::vector<Operands>> sets_;
};

// One way to compute the mix on each set: launches one behind the other.
class Launches {
 public:
  cudaError_t Add(const KernelRef& kernel, std::span<const Problem> problems,
                  std::span<const std::vector<Operands>> sets, const std::vector<size_t>& members,
                  const DeviceInfo& device) {
    std::vector<Problem> some;
    some.reserve(members.size());
    for (size_t i : members) some.push_back(problems[i]);
    count_ += kernel.family->MakePlan(some, device, kernel.config).launches;
    by_set_.resize(sets.size());
    for (size_t s = 0; s < sets.size(); ++s) {
      std::vector<Operands> operands;
      operands.reserve(members.size());
      for (size_t i : members) operands.push_back(sets[s][i]);
      auto& launch = by_set_[s].emplace_back(std::make_unique<PreparedLaunch>());
      GEMM_RETURN_IF_CUDA_ERROR(launch->Create(kernel, some, operands, device));
    }
    return cudaSuccess;
  }

  cudaError_t Launch(size_t set, cudaStream_t stream) const {
    for (const auto& launch : by_set_[set]) GEMM_RETURN_IF_CUDA_ERROR(launch->Launch(stream));
    return cudaSuccess;
  }

  int count() const { return count_; }

 private:
  std::vector<std::vector<std::unique_ptr<PreparedLaunch>>> by_set_;
  int count_ = 0;
};

// The host's work for a group, in seconds.
double PlanSeconds(const KernelRef& kernel, std::span<const Problem> problems,
                   std::span<const Operands> operands, const DeviceInfo& device) {
  std::vector<unsigned char> args;
  std::vector<double> seconds;
  for (int i = 0; i < 21; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Plan plan = kernel.family->MakePlan(problems, device, kernel.config);
    args.resize(plan.args_bytes);
    kernel.family->Encode(plan, problems, operands, args.data());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return Summarize(seconds).median;
}

struct Mixed {
  std::string name;
  std::vector<Problem> problems;
};

cudaError_t Measure(Session& session, const Flags& flags, const Mixed& mix, int* failed) {
  const cudaStream_t stream = session.bench().stream();
  const DeviceInfo& device = session.device();
  Arena arena;
  GEMM_RETURN_IF_CUDA_ERROR(arena.Create(mix.problems, device, stream));
  const auto& sets = arena.sets();

  std::vector<std::pair<KernelRef, std::vector<size_t>>> groups;
  Launches grouped;
  Launches alone;
  Launches chosen;
  for (size_t i = 0; i < mix.problems.size(); ++i) {
    const Selection selection = session.selector().Select(mix.problems[i], flags.kernel);
    if (selection.kernel.family == nullptr) return cudaErrorNotSupported;
    GEMM_RETURN_IF_CUDA_ERROR(chosen.Add(selection.kernel, mix.problems, sets, {i}, device));
    // --kernel: that one for all.
    KernelRef kernel = selection.kernel;
    if (flags.kernel.empty()) {
      kernel = session.selector().SelectForGroup(mix.problems[i], selection.kernel);
      if (kernel.family == nullptr) kernel = selection.kernel;
    }
    GEMM_RETURN_IF_CUDA_ERROR(alone.Add(kernel, mix.problems, sets, {i}, device));
    const auto same = [&kernel](const auto& group) {
      return group.first.family == kernel.family && group.first.config == kernel.config;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), {kernel, {}});
    group->second.push_back(i);
  }
  for (const auto& [kernel, members] : groups) {
    GEMM_RETURN_IF_CUDA_ERROR(grouped.Add(kernel, mix.problems, sets, members, device));
  }

  struct Row {
    std::string name;
    int launches;
    bool ours;
  };
  std::vector<Row> rows;
  std::vector<Contender> contenders;
  std::vector<float> expected;
  const auto add = [&](Row row, auto launch) -> cudaError_t {
    std::vector<float> values;
    const cudaError_t error =
        arena.Results([&launch](cudaStream_t on) { return launch(0, on); }, stream, &values);
    if (error != cudaSuccess && row.ours) return error;
    cudaGetLastError();
    if (expected.empty()) expected = values;
    double worst = 0;
    size_t different = 0;
    for (size_t i = 0; error == cudaSuccess && i < values.size(); ++i) {
      if (std::isnan(values[i]) && std::isnan(expected[i])) continue;  // between two results
      if (values[i] != expected[i]) ++different;
      const double distance = std::abs(values[i] - expected[i]);
      worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
    }
    Contender contender{row.name, launch};
    if (error != cudaSuccess || !CanCapture(contender, stream)) {
      std::printf("%-10s %-24s refused or not to be captured\n", mix.name.c_str(),
                  row.name.c_str());
      return cudaSuccess;
    }
    if (row.ours ? different > 0 : worst > 1e-3) {
      ++*failed;
      std::printf("%-10s %-24s FAILED: %zu elements differ, by up to %g\n", mix.name.c_str(),
                  row.name.c_str(), different, worst);
      return cudaSuccess;
    }
    rows.push_back(std::move(row));
    contenders.push_back(std::move(contender));
    return cudaSuccess;
  };
  const auto ours = [](const Launches& launches) {
    return [&launches](size_t set, cudaStream_t on) { return launches.Launch(set, on); };
  };
  GEMM_RETURN_IF_CUDA_ERROR(add({"each alone", alone.count(), true}, ours(alone)));
  GEMM_RETURN_IF_CUDA_ERROR(add({"each as chosen", chosen.count(), true}, ours(chosen)));
  GEMM_RETURN_IF_CUDA_ERROR(add({"grouped", grouped.count(), true}, ours(grouped)));
  const std::vector<std::string> ways = session.peer().PrepareGroup(mix.problems, sets);
  for (size_t way = 0; way < ways.size(); ++way) {
    GEMM_RETURN_IF_CUDA_ERROR(
        add({ways[way], 0, false}, [&session, way](size_t set, cudaStream_t on) {
          return session.peer().LaunchGroup(way, set, on) ? cudaSuccess : cudaErrorNotSupported;
        }));
  }
  Pace pace;
  if (flags.shape_seconds > 0) pace.seconds = flags.shape_seconds;
  std::vector<Summary> seconds;
  GEMM_RETURN_IF_CUDA_ERROR(TimeAlternately(contenders, sets.size(), pace, stream, &seconds));
  double flops = 0;
  for (const Problem& problem : mix.problems) flops += FlopCount(problem);
  double grouped_seconds = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].name == "grouped") grouped_seconds = seconds[r].median;
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const double us = 1e6 * seconds[r].median;
    const double ratio = grouped_seconds > 0 ? seconds[r].median / grouped_seconds : 0;
    std::printf("%-10s %-24s %8d %11.2f %9.3f %6.1f%% %9.3f\n", mix.name.c_str(),
                rows[r].name.c_str(), rows[r].launches, us, 1e-12 * flops / seconds[r].median,
                100 * seconds[r].spread(), ratio);
    session.log().Write({{"kind", "group"},
                         {"mix", mix.name},
                         {"way", rows[r].name},
                         {"launches", rows[r].launches},
                         {"us", us},
                         {"spread", seconds[r].spread()},
                         {"tflops", 1e-12 * flops / seconds[r].median},
                         {"times_grouped", ratio}});
  }
  for (const auto& [kernel, members] : groups) {
    std::vector<Problem> some;
    std::vector<Operands> operands;
    for (size_t i : members) {
      some.push_back(mix.problems[i]);
      operands.push_back(sets[0][i]);
    }
    std::printf("%-10s %zu of %zu by %s, planned and encoded in %.2f us\n", mix.name.c_str(),
                members.size(), mix.problems.size(), std::string(kernel.get().name).c_str(),
                1e6 * PlanSeconds(kernel, some, operands, device));
  }
  return cudaSuccess;
}

}  // namespace

int RunGroup(const Flags& flags) {
  Session session(flags);
  if (const std::string fault = session.Open(); !fault.empty()) return Refuse(fault);
  std::printf("%-10s %-24s %8s %11s %9s %7s %9s\n", "mix", "way", "launches", "us", "TFLOP/s",
              "spread", "x grouped");
  int failed = 0;
  for (const int most : {64, 256, 512}) {
    for (const int count : {8, 64, 256}) {
      if (!session.HasTime()) break;
      const Mixed mix{std::to_string(count) + " to " + std::to_string(most),
                      Mix(count, most, static_cast<uint64_t>(count) + static_cast<uint64_t>(most))};
      if (const cudaError_t error = Measure(session, flags, mix, &failed); error != cudaSuccess) {
        return Refuse(mix.name + ": " + CudaErrorText(error));
      }
      std::fflush(stdout);
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace gemm
