// Choosing a kernel: a pure function of the problem, the device and the families, so it is tested
// from literals on machines without a GPU.

#ifndef GEMMD_KERNELS_SELECT_H_
#define GEMMD_KERNELS_SELECT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace gemm {

struct KernelRef {
  const KernelFamily* family = nullptr;
  int config = 0;

  const KernelConfig& get() const { return family->configs()[config]; }
};

struct Candidate {
  KernelRef kernel;
  std::string why_not;          // empty: it can run the problem
  double modelled_seconds = 0;  // only when it can
};

struct Selection {
  KernelRef kernel;                   // family is null when nothing can run the problem
  std::string reason;                 // "forced", "modelled", "only one", or why there is none
  std::vector<Candidate> candidates;  // in registry order; filled by Explain only
};

// The legal configuration with the least modelled time; ties go to the first in registry order.
// `forced`, when not empty, is the full name of the only configuration to consider. Allocates
// nothing on the way to a choice beyond what WhyNot returns.
Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced = {});

// The same choice, with every candidate's verdict.
Selection Explain(const Problem& problem, const DeviceInfo& device,
                  std::span<const KernelFamily* const> families, std::string_view forced = {});

}  // namespace gemm

#endif  // GEMMD_KERNELS_SELECT_H_
