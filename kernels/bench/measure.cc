#include "kernels/bench/measure.h"

#include <algorithm>
#include <memory>

#include "kernels/cuda_status.h"

namespace gemm {
namespace {

// A single launch this short is all latency: it says nothing of the kernel.
constexpr double kLatencySeconds = 5e-5;

// The legal configurations, without those that the model has no hope for.
std::vector<KernelRef> Hopeful(const Problem& problem, const DeviceInfo& device,
                               std::span<const KernelFamily* const> families, double hopeless) {
  std::vector<KernelRef> kernels;
  std::vector<double> modelled;
  for (const KernelFamily* family : families) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelRef kernel{family, static_cast<int>(config)};
      if (kernel.get().dtype != problem.dtype) continue;
      if (!family->WhyNot(problem, device, kernel.config).empty()) continue;
      kernels.push_back(kernel);
      modelled.push_back(family->ModelSeconds(problem, device, kernel.config));
    }
  }
  if (kernels.empty()) return kernels;
  const double limit = hopeless * *std::min_element(modelled.begin(), modelled.end());
  std::vector<KernelRef> hopeful;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (modelled[i] <= limit) hopeful.push_back(kernels[i]);
  }
  return hopeful;
}

struct Entry {
  size_t time = 0;  // its index in the result
  std::unique_ptr<PreparedRotation> rotation;
};

Contender ContenderOf(const PreparedRotation* rotation, std::string_view name) {
  return {std::string(name),
          [rotation](size_t set, cudaStream_t stream) { return rotation->Launch(set, stream); }};
}

}  // namespace

cudaError_t MeasureKernels(Workbench& bench, const Problem& problem,
                           std::span<const KernelFamily* const> families,
                           const MeasureOptions& options, std::vector<KernelTime>* times) {
  times->clear();
  const cudaStream_t stream = bench.stream();
  OperandArena& arena = bench.arena();
  GEMM_RETURN_IF_CUDA_ERROR(arena.Create(problem, bench.device(), options.max_sets, stream));
  ResultCheck check;
  GEMM_RETURN_IF_CUDA_ERROR(check.Create(problem, arena, options.samples));

  // 1. Check, with the time of that one launch.
  std::vector<Entry> entries;
  double best_once = 0;
  std::vector<KernelRef> hopeful = Hopeful(problem, bench.device(), families, options.hopeless);
  // Last first: the reference, or what is nearest to it, sets the bits of its class.
  std::reverse(hopeful.begin(), hopeful.end());
  for (const KernelRef& kernel : hopeful) {
    KernelTime& time = times->emplace_back();
    time.kernel = kernel;
    time.rough = true;
    auto rotation = std::make_unique<PreparedRotation>();
    GEMM_RETURN_IF_CUDA_ERROR(rotation->Create(kernel, problem, arena.sets(), bench.device()));
    const PreparedRotation* prepared = rotation.get();
    double once = 0;
    GEMM_RETURN_IF_CUDA_ERROR(
        check.Run([prepared](cudaStream_t on) { return prepared->Launch(0, on); },
                  &kernel.get().numerics, stream, &time.fault, &once));
    if (!time.fault.empty()) continue;
    time.seconds = Summarize({once});
    if (best_once == 0 || once < best_once) best_once = once;
    entries.push_back({times->size() - 1, std::move(rotation)});
  }

  // 2. A first pass over the sets for what is not hopeless, alone: nothing to compare yet.
  double best = 0;
  const Pace first_pass = {.graph_seconds = 0, .seconds = 0, .min_rounds = 1, .max_rounds = 1};
  std::vector<Summary> summaries;
  for (const Entry& entry : entries) {
    KernelTime& time = (*times)[entry.time];
    if (time.seconds.median > std::max(options.drop * best_once, kLatencySeconds)) continue;
    GEMM_RETURN_IF_CUDA_ERROR(TimeAlternately({ContenderOf(entry.rotation.get(), "")},
                                              arena.sets().size(), first_pass, stream, &summaries));
    time.seconds = summaries[0];
    if (best == 0 || time.seconds.median < best) best = time.seconds.median;
  }

  // 3. The rest against each other.
  std::vector<Contender> contenders;
  std::vector<size_t> at;
  for (const Entry& entry : entries) {
    const KernelTime& time = (*times)[entry.time];
    if (time.seconds.median > options.keep * best) continue;
    contenders.push_back(ContenderOf(entry.rotation.get(), time.kernel.get().name));
    at.push_back(entry.time);
  }
  if (contenders.empty()) return cudaSuccess;
  GEMM_RETURN_IF_CUDA_ERROR(
      TimeAlternately(contenders, arena.sets().size(), options.pace, stream, &summaries));
  for (size_t i = 0; i < at.size(); ++i) {
    (*times)[at[i]].seconds = summaries[i];
    (*times)[at[i]].rough = false;
  }
  return cudaSuccess;
}

}  // namespace gemm
