#include "kernels/select.h"

#include <utility>

namespace gemm {
namespace {

Selection Choose(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced,
                 bool explain) {
  Selection selection;
  double least_seconds = 0;
  int legal = 0;
  std::string forced_why_not;
  bool forced_exists = false;
  for (const KernelFamily* family : families) {
    const int configs = static_cast<int>(family->configs().size());
    for (int config = 0; config < configs; ++config) {
      const KernelRef kernel{family, config};
      if (!forced.empty() && kernel.get().name != forced) continue;
      forced_exists = true;
      std::string why_not = family->WhyNot(problem, device, config);
      double seconds = 0;
      if (why_not.empty()) {
        ++legal;
        seconds = family->ModelSeconds(problem, device, config);
        // Strictly less: a tie stays with the earlier, preferred one.
        if (selection.kernel.family == nullptr || seconds < least_seconds) {
          selection.kernel = kernel;
          least_seconds = seconds;
        }
      } else if (!forced.empty()) {
        forced_why_not = why_not;
      }
      if (explain) selection.candidates.push_back({kernel, std::move(why_not), seconds});
    }
  }
  if (!forced.empty()) {
    if (legal > 0) {
      selection.reason = "forced";
    } else if (forced_exists) {
      selection.reason = std::string(forced) + ": " + forced_why_not;
    } else {
      selection.reason = "no kernel is named " + std::string(forced);
    }
  } else if (legal > 1) {
    selection.reason = "modelled";
  } else {
    selection.reason = legal == 1 ? "only one" : "no kernel can run it";
  }
  return selection;
}

}  // namespace

Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced) {
  return Choose(problem, device, families, forced, /*explain=*/false);
}

Selection Explain(const Problem& problem, const DeviceInfo& device,
                  std::span<const KernelFamily* const> families, std::string_view forced) {
  return Choose(problem, device, families, forced, /*explain=*/true);
}

}  // namespace gemm
