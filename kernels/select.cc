#include "kernels/select.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace gemm {
namespace {

// A kernel that a row does not name took longer there than so many times its fastest.
constexpr double kUnnamed = 1.5;
// What is modelled at so many times what another should take is slower, however wrong the model may
// be.
constexpr double kHopeless = 2.5;
// Of the model beside a table's rows: it counts as one two octaves away on which it is right.
constexpr double kModelWeight = 1.0 / 4;
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

  // The modelled time as near rows correct it; 0 if none of them names the kernel.
  double CorrectedSeconds(const Problem& problem, const KernelRef& kernel) const {
    const double modelled = kernel.family->ModelSeconds(problem, device_, kernel.config);
    const Estimate estimate = Corrected(modelled, RowsFor(problem), kernel);
    return estimate.row != nullptr ? estimate.seconds : 0;
  }

 private:
  using Class = std::optional<NumericsClass>;

  struct Estimate {
    double seconds;
    const TuningRow* row;  // the nearest that names the kernel, or null
  };
  struct Contender {
    KernelRef kernel;
    double modelled;
    size_t order;  // in the registry
  };

  struct NearProduct {
    const TuningRow* row;
    Problem product;
    double squared_distance;
  };

  // No measured row says anything of a product without a sum.
  std::vector<NearProduct> RowsFor(const Problem& problem) const {
    std::vector<NearProduct> products;
    if (!ReadsAB(problem)) return products;
    const NearRows found = NearestRows(table_, problem);
    for (const NearRows::Near& near : found.span()) {
      products.push_back({near.row, ProductOf(*near.row), near.squared_distance});
    }
    return products;
  }

  struct Known {
    double seconds;
    bool named;  // else it took at least so long
  };

  static Known KnownOf(const TuningRow& row, std::string_view name) {
    double least = 1e-6 * kUnnamed * row.kernels.front().microseconds;
    for (const MeasuredKernel& measured : row.kernels) {
      if (measured.kernel == name) return {1e-6 * measured.microseconds, true};
    }
    // A full row names the fastest only.
    if (!row.kernels.back().kernel.empty()) {
      least = std::min(least, 1e-6 * row.kernels.back().microseconds);
    }
    return {least, false};
  }

  // How long a kernel took over how long it should have, as a logarithm. Nothing where it could not
  // run, or should have taken longer than is known.
  std::optional<double> ErrorAt(const Problem& product, const KernelRef& kernel,
                                const Known& known) const {
    if (!kernel.family->WhyNot(product, device_, kernel.config).empty()) return std::nullopt;
    const double modelled = kernel.family->ModelSeconds(product, device_, kernel.config);
    if (!known.named && modelled >= known.seconds) return std::nullopt;
    return std::log(known.seconds / modelled);
  }

  // By the mean of the model's errors at near rows, weighted with the inverse square of their
  // distances. A row of the problem itself speaks alone.
  Estimate Corrected(double modelled, const std::vector<NearProduct>& rows,
                     const KernelRef& kernel) const {
    double errors = 0;
    double weights = kModelWeight;
    const TuningRow* nearest = nullptr;
    for (const NearProduct& near : rows) {
      const Known known = KnownOf(*near.row, kernel.get().name);
      const std::optional<double> error = ErrorAt(near.product, kernel, known);
      if (!error) continue;
      if (known.named && nearest == nullptr) nearest = near.row;
      if (near.squared_distance == 0) return {modelled * std::exp(*error), nearest};
      errors += *error / near.squared_distance;
      weights += 1 / near.squared_distance;
    }
    return {modelled * std::exp(errors / weights), nearest};
  }

  // Those that can run the problem, by their modelled times.
  std::vector<Contender> Contenders(const Problem& problem, Class numerics) const {
    std::vector<Contender> legal;
    for (const KernelFamily* family : families_) {
      const int configs = static_cast<int>(family->configs().size());
      for (int config = 0; config < configs; ++config) {
        const KernelRef kernel{family, config};
        if (!Runs(problem, numerics, kernel)) continue;
        legal.push_back({kernel, family->ModelSeconds(problem, device_, config), legal.size()});
      }
    }
    std::sort(legal.begin(), legal.end(), [](const Contender& a, const Contender& b) {
      return std::pair(a.modelled, a.order) < std::pair(b.modelled, b.order);
    });
    return legal;
  }

  Selection Fastest(const Problem& problem, Class numerics) const {
    const std::vector<Contender> legal = Contenders(problem, numerics);
    const std::vector<NearProduct> rows = RowsFor(problem);
    Selection selection;
    double least_seconds = 0;
    size_t order = 0;
    for (const Contender& contender : legal) {
      const bool first = selection.kernel.family == nullptr;
      if (!first && contender.modelled > kHopeless * least_seconds) break;
      const Estimate estimate = Corrected(contender.modelled, rows, contender.kernel);
      const bool binds = !numerics && contender.kernel.get().numerics != NumericsClass::kSequential;
      const double seconds = estimate.seconds + (binds ? kClassSeconds : 0);
      if (!first && std::pair(seconds, contender.order) > std::pair(least_seconds, order)) continue;
      selection.kernel = contender.kernel;
      selection.row = estimate.row;
      least_seconds = seconds;
      order = contender.order;
    }
    selection.reason = legal.empty()              ? "no kernel can run it"
                       : legal.size() == 1        ? "only one"
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
          candidate.corrected_seconds = chooser.CorrectedSeconds(problem, candidate.kernel);
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
