#include "kernels/select.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// What a time that comes from farther away than the nearest row is marked up by, for each step of
// distance.
constexpr double kDoubt = 0.08;
// The part of a time that does not change with the problem: a launch, its first loads, its last
// stores. The model leaves it out, since it is the same for all.
constexpr double kFixedSeconds = 1e-6;

// The problem that settles the numerics class of all that share its sizes, type and transposes: one
// matrix, dense and aligned, alpha 1, beta 0.
Problem Canonical(const Problem& problem) {
  Problem canonical = DenseProblem(problem.dtype, problem.m, problem.n, problem.k);
  canonical.precision = problem.precision;
  canonical.a.transposed = problem.a.transposed;
  canonical.b.transposed = problem.b.transposed;
  canonical.a.ld = std::max<int64_t>(1, StoredA(canonical).columns);
  canonical.b.ld = std::max<int64_t>(1, StoredB(canonical).columns);
  for (MatrixLayout* layout : {&canonical.a, &canonical.b, &canonical.c, &canonical.d}) {
    layout->alignment_bytes = 256;
  }
  return canonical;
}

class Chooser {
 public:
  Chooser(const DeviceInfo& device, std::span<const KernelFamily* const> families,
          const TuningTable& table)
      : device_(device), families_(families), table_(table) {}

  Selection Choose(const Problem& problem) const {
    // Without a product there is no sum to have a class, and no measured row to go by.
    if (!ReadsAB(problem)) return Modelled(problem, std::nullopt);
    const Problem canonical = Canonical(problem);
    const Selection first = Canonically(canonical);
    if (first.kernel.family == nullptr || canonical == problem) {
      return first.kernel.family == nullptr ? Any(problem, std::nullopt) : first;
    }
    Selection selection = Any(problem, first.kernel.get().numerics);
    return selection.kernel.family != nullptr ? selection : Any(problem, std::nullopt);
  }

  KernelRef ChooseForGroup(const Problem& problem) const {
    Class numerics;
    if (ReadsAB(problem)) {
      const Selection first = Any(Canonical(problem), std::nullopt);
      if (first.kernel.family == nullptr) return {};
      numerics = first.kernel.get().numerics;
    }
    KernelRef best;
    double least_seconds = 0;
    for (const KernelFamily* family : families_) {
      for (int config = 0; config < static_cast<int>(family->configs().size()); ++config) {
        const KernelRef kernel{family, config};
        if (!family->Groups(config) || !Runs(problem, numerics, kernel)) continue;
        const double seconds = family->ModelSeconds(problem, device_, config);
        if (best.family == nullptr || seconds < least_seconds) {
          best = kernel;
          least_seconds = seconds;
        }
      }
    }
    return best;
  }

  Selection Forced(const Problem& problem, std::string_view forced) const {
    Selection selection;
    const KernelRef kernel = Named(forced);
    if (kernel.family == nullptr) {
      selection.reason = "no kernel is named " + std::string(forced);
      return selection;
    }
    const std::string why_not = kernel.family->WhyNot(problem, device_, kernel.config);
    if (!why_not.empty()) {
      selection.reason = std::string(forced) + ": " + why_not;
      return selection;
    }
    selection.kernel = kernel;
    selection.reason = "forced";
    return selection;
  }

  // What the nearest row that knows the kernel says of it here, or 0.
  double MeasuredSeconds(const Problem& problem, const KernelRef& kernel) const {
    const NearRows rows = NearestRows(table_, BucketOf(problem));
    for (const NearRows::Near& near : rows.span()) {
      for (const MeasuredKernel& measured : near.row->kernels) {
        if (measured.kernel != kernel.get().name) continue;
        return CarriedSeconds(problem, *near.row, kernel, measured);
      }
    }
    return 0;
  }

 private:
  using Class = std::optional<NumericsClass>;

  // Narrow products are summed in lanes wherever a kernel can: nothing else comes near, and the
  // rows of wider ones, which name no such kernel, must not decide otherwise.
  Selection Canonically(const Problem& canonical) const {
    if (NumericsOf(canonical) == NumericsClass::kChunkedLanes) {
      Selection selection = Any(canonical, NumericsClass::kChunkedLanes);
      if (selection.kernel.family != nullptr) return selection;
    }
    return Any(canonical, std::nullopt);
  }

  Selection Any(const Problem& problem, Class numerics) const {
    Selection selection = Measured(problem, numerics);
    return selection.kernel.family != nullptr ? selection : Modelled(problem, numerics);
  }

  Selection Measured(const Problem& problem, Class numerics) const {
    Selection selection;
    const NearRows rows = NearestRows(table_, BucketOf(problem));
    double least_seconds = 0;
    for (size_t r = 0; r < rows.count; ++r) {
      for (const MeasuredKernel& measured : rows.near[r].row->kernels) {
        const KernelRef kernel = Named(measured.kernel);
        // A name that is gone was measured with another build.
        if (kernel.family == nullptr || !Runs(problem, numerics, kernel)) continue;
        // A nearer row has spoken for it.
        if (IsIn(measured.kernel, rows.span().first(r))) continue;
        const double seconds = CarriedSeconds(problem, *rows.near[r].row, kernel, measured) *
                               (1 + kDoubt * (rows.near[r].distance - rows.near[0].distance));
        if (selection.kernel.family == nullptr || seconds < least_seconds) {
          selection.kernel = kernel;
          selection.row = rows.near[r].row;
          least_seconds = seconds;
        }
      }
    }
    selection.reason = "measured";
    return selection;
  }

  // The row's time, carried over to the problem.
  double CarriedSeconds(const Problem& problem, const TuningRow& row, const KernelRef& kernel,
                        const MeasuredKernel& measured) const {
    const double here = kernel.family->ModelSeconds(problem, device_, kernel.config);
    const double there = kernel.family->ModelSeconds(CentreOf(row.bucket), device_, kernel.config);
    return 1e-6 * measured.microseconds * (here + kFixedSeconds) / (there + kFixedSeconds);
  }

  static bool IsIn(std::string_view kernel, std::span<const NearRows::Near> rows) {
    for (const NearRows::Near& near : rows) {
      for (const MeasuredKernel& measured : near.row->kernels) {
        if (measured.kernel == kernel) return true;
      }
    }
    return false;
  }

  Selection Modelled(const Problem& problem, Class numerics) const {
    Selection selection;
    double least_seconds = 0;
    int legal = 0;
    for (const KernelFamily* family : families_) {
      const int configs = static_cast<int>(family->configs().size());
      for (int config = 0; config < configs; ++config) {
        const KernelRef kernel{family, config};
        if (!Runs(problem, numerics, kernel)) continue;
        ++legal;
        const double seconds = family->ModelSeconds(problem, device_, config);
        // Strictly less: a tie stays with the earlier, preferred one.
        if (selection.kernel.family == nullptr || seconds < least_seconds) {
          selection.kernel = kernel;
          least_seconds = seconds;
        }
      }
    }
    selection.reason = legal > 1 ? "modelled" : legal == 1 ? "only one" : "no kernel can run it";
    return selection;
  }

  bool Runs(const Problem& problem, Class numerics, const KernelRef& kernel) const {
    const KernelConfig& config = kernel.get();
    // The type first: it spares most configurations the words of their WhyNot.
    return config.dtype == problem.dtype && (!numerics || config.numerics == *numerics) &&
           kernel.family->WhyNot(problem, device_, kernel.config).empty();
  }

  KernelRef Named(std::string_view name) const {
    if (name.empty()) return {};
    for (const KernelFamily* family : families_) {
      const int configs = static_cast<int>(family->configs().size());
      for (int config = 0; config < configs; ++config) {
        if (family->configs()[config].name == name) return {family, config};
      }
    }
    return {};
  }

  const DeviceInfo& device_;
  const std::span<const KernelFamily* const> families_;
  const TuningTable& table_;
};

}  // namespace

Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced,
                 const TuningTable& table) {
  const Chooser chooser(device, families, table);
  return forced.empty() ? chooser.Choose(problem) : chooser.Forced(problem, forced);
}

Selection Explain(const Problem& problem, const DeviceInfo& device,
                  std::span<const KernelFamily* const> families, std::string_view forced,
                  const TuningTable& table) {
  const Chooser chooser(device, families, table);
  Selection selection = Select(problem, device, families, forced, table);
  for (const KernelFamily* family : families) {
    const int configs = static_cast<int>(family->configs().size());
    for (int config = 0; config < configs; ++config) {
      Candidate candidate;
      candidate.kernel = {family, config};
      const std::string_view name = candidate.kernel.get().name;
      if (!forced.empty() && name != forced) continue;
      candidate.why_not = family->WhyNot(problem, device, config);
      if (candidate.why_not.empty()) {
        candidate.modelled_seconds = family->ModelSeconds(problem, device, config);
        if (selection.row != nullptr) {
          candidate.measured_seconds = chooser.MeasuredSeconds(problem, candidate.kernel);
        }
      }
      selection.candidates.push_back(std::move(candidate));
    }
  }
  return selection;
}

Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced) {
  return Select(problem, device, families, forced, TuningFor(device));
}

Selection Explain(const Problem& problem, const DeviceInfo& device,
                  std::span<const KernelFamily* const> families, std::string_view forced) {
  return Explain(problem, device, families, forced, TuningFor(device));
}

KernelRef SelectForGroup(const Problem& problem, const DeviceInfo& device,
                         std::span<const KernelFamily* const> families, const TuningTable& table) {
  return Chooser(device, families, table).ChooseForGroup(problem);
}

KernelRef SelectForGroup(const Problem& problem, const DeviceInfo& device,
                         std::span<const KernelFamily* const> families) {
  return SelectForGroup(problem, device, families, TuningFor(device));
}

}  // namespace gemm
