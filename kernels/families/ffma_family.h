// The host side of the families that are built on ffma_pipeline.cuh. A product is one kernel, or,
// where k is summed in chunks, that kernel and a second pass; batches whose chunk sums would need
// too much workspace go in several such rounds.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_FAMILY_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_FAMILY_H_

#include <array>
#include <cstddef>
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
  double math_fraction;  // see cost_model.h
  double lone_fraction;
};

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
  // All spans are of static storage and of one length. `functions` are __global__ void(FfmaGemm).
  FfmaFamily(std::string_view name, std::span<const FfmaConfig> configs,
             std::span<const KernelConfig> kernel_configs, std::span<const void* const> functions)
      : name_(name),
        ffma_configs_(configs),
        kernel_configs_(kernel_configs),
        functions_(functions) {}

 private:
  const std::string_view name_;
  const std::span<const FfmaConfig> ffma_configs_;
  const std::span<const KernelConfig> kernel_configs_;
  const std::span<const void* const> functions_;
};

template <size_t kCount>
constexpr std::array<KernelConfig, kCount> ToKernelConfigs(const FfmaConfig (&configs)[kCount]) {
  std::array<KernelConfig, kCount> result;
  for (size_t i = 0; i < kCount; ++i) {
    result[i] = {configs[i].name, DType::kF32, configs[i].numerics};
  }
  return result;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_FAMILY_H_
