#include "kernels/bench/repetition.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/bench/count_different.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr int kSamples = 64;
// Between two looks at the time.
constexpr double kLookSeconds = 0.02;
constexpr double kMostRounds = 32;

}  // namespace

cudaError_t Repetition::Create() {
  GEMM_RETURN_IF_CUDA_ERROR(
      bench_.arena().Create(problem_, bench_.device(), kSets, bench_.stream(), kSets));
  return check_.Create(problem_, bench_.arena(), kSamples);
}

cudaError_t Repetition::Add(const KernelRef& kernel) {
  Contender& contender = contenders_.emplace_back();
  contender.kernel = kernel;
  GEMM_RETURN_IF_CUDA_ERROR(
      contender.rotation.Create(kernel, problem_, bench_.arena().sets(), bench_.device()));
  GEMM_RETURN_IF_CUDA_ERROR(
      check_.Run([&contender](cudaStream_t on) { return contender.rotation.Launch(0, on); },
                 &kernel.get().numerics, bench_.stream(), &contender.fault, &contender.once));
  return contender.fault.empty() ? KeepFirst(contender) : cudaSuccess;
}

cudaError_t Repetition::KeepFirst(const Contender& contender) {
  const auto [first, added] = first_.try_emplace(contender.kernel.get().numerics);
  if (!added) return cudaSuccess;
  const size_t bytes = bench_.arena().result_bytes();
  const std::vector<Operands>& sets = bench_.arena().sets();
  for (size_t set = 0; set < sets.size(); ++set) {
    GEMM_RETURN_IF_CUDA_ERROR(first->second[set].Create(bytes));
    GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(sets[set].d, 0xff, bytes, bench_.stream()));
    GEMM_RETURN_IF_CUDA_ERROR(contender.rotation.Launch(set, bench_.stream()));
    GEMM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(first->second[set].data(), sets[set].d, bytes,
                                              cudaMemcpyDeviceToDevice, bench_.stream()));
  }
  return cudaSuccess;
}

cudaError_t Repetition::Compare(const Contender& contender, const Contender& before, size_t set,
                                unsigned* different) {
  const cudaStream_t stream = bench_.stream();
  const size_t bytes = bench_.arena().result_bytes();
  const std::vector<Operands>& sets = bench_.arena().sets();
  GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(sets[set].d, 0xff, bytes, stream));
  GEMM_RETURN_IF_CUDA_ERROR(before.rotation.Launch(1 - set, stream));
  GEMM_RETURN_IF_CUDA_ERROR(contender.rotation.Launch(set, stream));
  return CountDifferent(sets[set].d, first_.at(contender.kernel.get().numerics)[set].data(), bytes,
                        different, stream);
}

cudaError_t Repetition::Run(double seconds) {
  std::vector<size_t> sound;
  double round_seconds = 0;
  for (size_t i = 0; i < contenders_.size(); ++i) {
    if (!contenders_[i].fault.empty()) continue;
    sound.push_back(i);
    round_seconds += 2 * contenders_[i].once;
  }
  if (sound.empty()) return cudaSuccess;
  const auto at_once = static_cast<int>(std::clamp(kLookSeconds / round_seconds, 1.0, kMostRounds));
  const size_t count_bytes = contenders_.size() * sizeof(unsigned);
  GEMM_RETURN_IF_CUDA_ERROR(counts_.Create(count_bytes));
  GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(counts_.data(), 0, count_bytes, bench_.stream()));
  auto* counts = static_cast<unsigned*>(counts_.data());
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t round = 0;
  do {
    for (int looked = 0; looked < at_once; ++looked, ++round) {
      for (size_t i = 0; i < sound.size(); ++i) {
        Contender& contender = contenders_[sound[i]];
        // Each behind each other one, and behind itself.
        const Contender& before = contenders_[sound[(i + round / kSets) % sound.size()]];
        GEMM_RETURN_IF_CUDA_ERROR(Compare(contender, before, round % kSets, counts + sound[i]));
        ++contender.compared;
      }
    }
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(bench_.stream()));
  } while (std::chrono::steady_clock::now() < end);

  std::vector<unsigned> different(contenders_.size());
  GEMM_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(different.data(), counts, count_bytes, cudaMemcpyDeviceToHost));
  for (size_t i : sound) contenders_[i].different = different[i];
  return cudaSuccess;
}

}  // namespace gemm
