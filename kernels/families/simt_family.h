// The host side that SIMT families share: each problem of a launch is one kernel with a StridedGemm
// by value, so nothing has to be copied to the device and no workspace is needed. A family adds its
// table of kernels and, where its grid is not one tile a block, Grid.

#ifndef GEMMD_KERNELS_FAMILIES_SIMT_FAMILY_H_
#define GEMMD_KERNELS_FAMILIES_SIMT_FAMILY_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/families/cost_model.h"
#include "kernels/families/strided_gemm.h"
#include "kernels/kernel.h"

namespace gemm {

// One row of a family's table.
struct SimtConfig {
  std::string_view name;
  DType dtype;
  int tile_m;  // rows and columns of D that a block computes at a time
  int tile_n;
  int tile_k;  // products of a sum that it stages at a time
  int threads;
  // See cost_model.h.
  double math_fraction;
  double lone_fraction;
  double begin;
  double result_fraction;
  double start_seconds;  // of a kernel with one tile and no products
};

struct SimtGrid {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

class SimtFamily : public KernelFamily {
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
  // All spans are of static storage and of one length. `functions` are
  // __global__ void(StridedGemm<T>) with T of the row's dtype.
  SimtFamily(std::string_view name, std::span<const SimtConfig> configs,
             std::span<const KernelConfig> kernel_configs, std::span<const void* const> functions)
      : name_(name),
        simt_configs_(configs),
        kernel_configs_(kernel_configs),
        functions_(functions) {}

  const SimtConfig& simt_config(int config) const { return simt_configs_[config]; }

  // By default blocks along x for the tiles of n, y for those of m, z for the batch, as
  // ForEachTile walks them.
  virtual SimtGrid Grid(const Problem& problem, const SimtConfig& config) const;

 private:
  const std::string_view name_;
  const std::span<const SimtConfig> simt_configs_;
  const std::span<const KernelConfig> kernel_configs_;
  const std::span<const void* const> functions_;
};

// The public half of a table: `constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);`.
template <size_t kCount>
constexpr std::array<KernelConfig, kCount> ToKernelConfigs(const SimtConfig (&configs)[kCount]) {
  std::array<KernelConfig, kCount> result;
  for (size_t i = 0; i < kCount; ++i) {
    result[i] = {configs[i].name, configs[i].dtype, NumericsClass::kSequential};
  }
  return result;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SIMT_FAMILY_H_
