// Choosing a kernel: a pure function of the problem, the device, the families and a table of
// measured times, so it is tested from literals on machines without a GPU.
//
// The choice, in order:
//   1. legal     the configurations whose WhyNot is empty;
//   2. class     how the product sums is settled by m, n, k, type and transposes alone, so that a
//                result's bits never depend on the batch it came in or on where operands lay: only
//                configurations of that numerics class are left, unless none of them is legal.
//                For narrow products it is chunked_lanes, for others that of the choice for one
//                dense, aligned product;
//   3. measured  the rows of the table near the problem's bucket, or the bucket's own: each
//                kernel's time in the nearest row that names it, carried over to this problem by
//                the ratio of its modelled times here and there, and marked up for distance. The
//                least wins;
//   4. modelled  without a usable row, the least modelled time. The reference is among them.

#ifndef GEMMD_KERNELS_SELECT_H_
#define GEMMD_KERNELS_SELECT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/tuning/tuning_table.h"

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
  double measured_seconds = 0;  // carried over from the nearest row that names it, or 0
};

struct Selection {
  KernelRef kernel;  // family is null when nothing can run the problem
  // "forced", "measured", "modelled", "only one" (is legal in its class), or why there is none.
  std::string reason;
  const TuningRow* row = nullptr;     // what "measured" rests on; points into the table
  std::vector<Candidate> candidates;  // in registry order; filled by Explain only
};

// Ties go to the first in registry order. `forced`, when not empty, is the full name of the only
// configuration to consider. Allocates nothing on the way to a choice beyond what WhyNot returns.
Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced,
                 const TuningTable& table);

// The same choice, with every candidate's verdict.
Selection Explain(const Problem& problem, const DeviceInfo& device,
                  std::span<const KernelFamily* const> families, std::string_view forced,
                  const TuningTable& table);

// With the table that this build holds for the device.
Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced = {});
Selection Explain(const Problem& problem, const DeviceInfo& device,
                  std::span<const KernelFamily* const> families, std::string_view forced = {});

// The configuration that runs the product in a launch with others (KernelFamily::Groups), in the
// class that Select gives it: with the bits that it has alone. The fastest by the model where there
// are several; null where there is none. Which products are worth it is for the caller to say.
KernelRef SelectForGroup(const Problem& problem, const DeviceInfo& device,
                         std::span<const KernelFamily* const> families, const TuningTable& table);
KernelRef SelectForGroup(const Problem& problem, const DeviceInfo& device,
                         std::span<const KernelFamily* const> families);

}  // namespace gemm

#endif  // GEMMD_KERNELS_SELECT_H_
