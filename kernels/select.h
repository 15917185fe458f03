// Choosing a kernel: a pure function of the problem, the device, the families and a table of
// measured times, so it is tested from literals on machines without a GPU.
//
// The choice, in order:
//   1. legal     the configurations whose WhyNot is empty;
//   2. time      each one's modelled time, corrected by as much as the model is wrong about it at
//                the nearest rows of the table, the more the nearer they are: a row of the product
//                itself decides alone. Of a kernel that a row does not name it is known that it
//                took longer there than the fastest. The least wins;
//   3. class     how the product sums is settled by m, n, k, type and transposes alone, so that a
//                result's bits never depend on the batch it came in or on where operands lay: it is
//                the class of the choice for one dense, aligned product, for which other classes
//                than sequential have to be faster by a margin. Only configurations of that class
//                are left, unless none of them is legal.

#ifndef GEMMD_KERNELS_SELECT_H_
#define GEMMD_KERNELS_SELECT_H_

#include <array>
#include <cstddef>
#include <optional>
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
  std::string why_not;           // empty: it can run the problem
  double modelled_seconds = 0;   // only when it can
  double corrected_seconds = 0;  // the same, as rows that are near correct it; or 0
};

struct Selection {
  KernelRef kernel;  // family is null when nothing can run the problem
  // "forced", "measured" (a row near it names it), "modelled", "only one" (is legal in its class),
  // or why there is none.
  std::string reason;
  const TuningRow* row = nullptr;     // the nearest that names it; points into the table
  std::vector<Candidate> candidates;  // in registry order; filled by Explain only
};

// Chooses for one device. What a table's rows say of the kernels is worked out when it is made, in
// milliseconds, so that a choice takes microseconds. Safe to use from any thread.
class Selector {
 public:
  // The families and the table's rows have to outlive it.
  Selector(const DeviceInfo& device, std::span<const KernelFamily* const> families,
           const TuningTable& table);
  // With the table that this build holds for the device.
  Selector(const DeviceInfo& device, std::span<const KernelFamily* const> families)
      : Selector(device, families, TuningFor(device)) {}

  // Ties go to the first in registry order. `forced`, when not empty, is the full name of the only
  // configuration to consider.
  Selection Select(const Problem& problem, std::string_view forced = {}) const;
  // The same choice, with every candidate's verdict.
  Selection Explain(const Problem& problem, std::string_view forced = {}) const;
  // The configuration that runs the product in a launch with others (KernelFamily::Groups), in the
  // class of `alone`, which Select gave: with the same bits. The fastest by the model where there
  // are several; null where there is none. Which products are worth it is for the caller to say.
  KernelRef SelectForGroup(const Problem& problem, const KernelRef& alone) const;

 private:
  using Class = std::optional<NumericsClass>;

  // All of one type: its kernels in registry order, the rows of the table, and by how much the
  // model is wrong about each kernel at each row, a row's kernels side by side.
  struct OfType {
    std::vector<KernelRef> kernels;
    std::vector<const TuningRow*> rows;
    Places places;
    std::vector<double> errors;
  };
  struct Contender {
    size_t kernel = 0;
    double modelled_seconds = 0;
  };

  const OfType& TypeOf(const Problem& problem) const {
    return types_[static_cast<size_t>(problem.dtype)];
  }
  void AddRow(const TuningRow& row);
  bool Runs(const Problem& problem, Class numerics, const KernelRef& kernel) const;
  NearPlaces RowsFor(const Problem& problem) const;
  double Corrected(const OfType& type, const NearPlaces& near, const Contender& contender) const;
  const TuningRow* NearestThatNames(const OfType& type, const NearPlaces& near,
                                    size_t kernel) const;
  std::vector<Contender> Contenders(const Problem& problem, Class numerics) const;
  Selection Fastest(const Problem& problem, Class numerics) const;
  Selection Forced(const Problem& problem, std::string_view forced) const;

  const DeviceInfo device_;
  const std::span<const KernelFamily* const> families_;
  std::array<OfType, 2> types_;
};

// A single choice, by a Selector that is made for it.
Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced,
                 const TuningTable& table);
Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced = {});

}  // namespace gemm

#endif  // GEMMD_KERNELS_SELECT_H_
