// Why a kernel cannot run a product, in the words that families share; empty where it may.

#ifndef GEMMD_KERNELS_FAMILIES_WHY_NOT_H_
#define GEMMD_KERNELS_FAMILIES_WHY_NOT_H_

#include <string>

#include "kernels/device_info.h"
#include "kernels/families/sum_order.h"
#include "kernels/gemm.h"

namespace gemm {

inline std::string WhyNotF32(const Problem& problem) {
  if (problem.dtype == DType::kF32) return {};
  return "computes f32, not " + std::string(NameOf(problem.dtype));
}

inline std::string WhyNotHopper(const DeviceInfo& device) {
  if (device.compute_capability == 90) return {};
  return "needs a device of compute capability 9.0";
}

inline std::string WhyNotF32OnHopper(const Problem& problem, const DeviceInfo& device) {
  std::string why = WhyNotF32(problem);
  return why.empty() ? WhyNotHopper(device) : why;
}

inline std::string WhyNotSummed(const Problem& problem, NumericsClass numerics) {
  if (MayBeSummed(problem, numerics)) return {};
  return "sums in " + std::string(NameOf(numerics)) + ", this product in " +
         std::string(NameOf(NumericsOf(problem)));
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_WHY_NOT_H_
