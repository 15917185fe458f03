// The host side of the families that are built on ffma_multiply.cuh. A product is up to three
// kernels: one that packs operands which the multiplying kernel cannot take as they lie, unless
// that one packs itself, that one, and, where k is summed in parts, a second pass. What needs too
// much workspace at once goes in several such rounds (ffma_rounds.h).

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_FAMILY_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_FAMILY_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "kernels/families/ffma_gemm.h"
#include "kernels/kernel.h"

namespace gemm {

// One row of a family's table.
struct FfmaConfig {
  std::string_view name;
  NumericsClass numerics;
  FfmaShape shape;
  // See cost_model.h.
  double math_fraction;
  double lone_fraction;
  double begin;
  double ragged;  // to be added to it where rows of D are not 16-byte aligned
};

// A kernel: the operands' tensor maps, each read only if it is fed by boxes, and the rest.
using FfmaFunction = void (*)(CUtensorMap map_a, CUtensorMap map_b, FfmaGemm gemm);

// Which operands are packed of those that the copy engine cannot fetch.
enum class FfmaPacking : uint8_t {
  kAll,
  kWherePays,  // those whose copies by threads would take longer
  kNone,
  kRefused,  // none: products that have no kernel without are another configuration's
};

// A configuration's kernels by the feeds of A and B; null where there is none.
struct FfmaFunctions {
  FfmaFunction by_feed[kFfmaFeeds][kFfmaFeeds] = {};
  FfmaPacking packing = FfmaPacking::kAll;  // with boxes alone; else see FfmaRounds
};

constexpr FfmaFunctions FfmaBoxes(FfmaFunction function) {
  FfmaFunctions functions;
  functions.by_feed[0][0] = function;
  return functions;
}

class FfmaFamily : public KernelFamily {
 public:
  std::string_view name() const override { return name_; }
  std::span<const KernelConfig> configs() const override { return kernel_configs_; }
  std::string WhyNot(const Problem& problem, const DeviceInfo& device, int config) const override;
  double ModelSeconds(const Problem& problem, const DeviceInfo& device, int config) const override;
  cudaError_t Prepare(const DeviceInfo& device) const override;
  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo& device,
                int config) const override;
  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override;
  cudaError_t Launch(const Plan& plan, const void* args, const void* device_args, void* workspace,
                     cudaStream_t stream) const override;

 protected:
  // All spans are of static storage and of one length.
  FfmaFamily(std::string_view name, std::span<const FfmaConfig> configs,
             std::span<const KernelConfig> kernel_configs, std::span<const FfmaFunctions> functions)
      : name_(name),
        ffma_configs_(configs),
        kernel_configs_(kernel_configs),
        functions_(functions) {}

 private:
  const std::string_view name_;
  const std::span<const FfmaConfig> ffma_configs_;
  const std::span<const KernelConfig> kernel_configs_;
  const std::span<const FfmaFunctions> functions_;
};

template <typename Configs>
constexpr auto ToKernelConfigs(const Configs& configs) {
  std::array<KernelConfig, std::size(Configs{})> result;
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = {configs[i].name, DType::kF32, configs[i].numerics};
  }
  return result;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_FAMILY_H_
