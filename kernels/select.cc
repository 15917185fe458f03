#include "kernels/select.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace gemm {
namespace {

// A kernel that a row does not name took longer there than so many times its fastest.
constexpr double kUnnamed = 1.5;
// By how much another class has to be faster than sequential sums for one product: batches of it
// will be bound to the class, and run fastest sequentially.
constexpr double kClassSeconds = 0.3e-6;

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
    // Without a product there is no sum to have a class.
    if (!ReadsAB(problem)) return Fastest(problem, std::nullopt);
    const Problem canonical = Canonical(problem);
    Selection first = Fastest(canonical, std::nullopt);
    if (first.kernel.family == nullptr) return Fastest(problem, std::nullopt);
    if (canonical == problem) return first;
    Selection selection = Fastest(problem, first.kernel.get().numerics);
    return selection.kernel.family != nullptr ? selection : Fastest(problem, std::nullopt);
  }

  KernelRef ChooseForGroup(const Problem& problem) const {
    Class numerics;
    if (ReadsAB(problem)) {
      const Selection first = Fastest(Canonical(problem), std::nullopt);
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

  // What the nearest row that names the kernel says of it here, or 0.
  double MeasuredSeconds(const Problem& problem, const KernelRef& kernel) const {
    const Estimate estimate = EstimateOf(problem, RowsFor(problem), kernel);
    return estimate.row != nullptr ? estimate.seconds : 0;
  }

 private:
  using Class = std::optional<NumericsClass>;

  struct Estimate {
    double seconds;
    const TuningRow* row;  // that names the kernel, or null
  };

  // No measured row says anything of a product without a sum.
  NearRows RowsFor(const Problem& problem) const {
    return ReadsAB(problem) ? NearestRows(table_, BucketOf(problem)) : NearRows{};
  }

  // The modelled time, corrected by as much as the model is wrong at the centre of the nearest row
  // that names the kernel; the farther away, the less.
  Estimate EstimateOf(const Problem& problem, const NearRows& rows, const KernelRef& kernel) const {
    const auto model = [&](const Problem& of) {
      return kernel.family->ModelSeconds(of, device_, kernel.config);
    };
    const auto corrected = [&](const NearRows::Near& near, double measured, double modelled) {
      const double trust = 1 - static_cast<double>(near.distance) / NearRows::kTooFar;
      return model(problem) * std::pow(measured / modelled, trust);
    };
    for (const NearRows::Near& near : rows.span()) {
      for (const MeasuredKernel& measured : near.row->kernels) {
        if (measured.kernel != kernel.get().name) continue;
        const double modelled = model(CentreOf(near.row->bucket));
        return {corrected(near, 1e-6 * measured.microseconds, modelled), near.row};
      }
    }
    if (rows.count > 0) {
      const NearRows::Near& nearest = rows.near[0];
      const Problem centre = CentreOf(nearest.row->bucket);
      const double least = 1e-6 * kUnnamed * nearest.row->kernels[0].microseconds;
      if (kernel.family->WhyNot(centre, device_, kernel.config).empty() && model(centre) < least) {
        return {corrected(nearest, least, model(centre)), nullptr};
      }
    }
    return {model(problem), nullptr};
  }

  Selection Fastest(const Problem& problem, Class numerics) const {
    Selection selection;
    const NearRows rows = RowsFor(problem);
    double least_seconds = 0;
    int legal = 0;
    for (const KernelFamily* family : families_) {
      const int configs = static_cast<int>(family->configs().size());
      for (int config = 0; config < configs; ++config) {
        const KernelRef kernel{family, config};
        if (!Runs(problem, numerics, kernel)) continue;
        ++legal;
        const Estimate estimate = EstimateOf(problem, rows, kernel);
        const bool binds = !numerics && kernel.get().numerics != NumericsClass::kSequential;
        const double seconds = estimate.seconds + (binds ? kClassSeconds : 0);
        // Strictly less: a tie stays with the earlier, preferred one.
        if (selection.kernel.family == nullptr || seconds < least_seconds) {
          selection.kernel = kernel;
          selection.row = estimate.row;
          least_seconds = seconds;
        }
      }
    }
    selection.reason = legal == 0                 ? "no kernel can run it"
                       : legal == 1               ? "only one"
                       : selection.row != nullptr ? "measured"
                                                  : "modelled";
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
