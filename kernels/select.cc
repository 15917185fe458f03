#include "kernels/select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gemm {
namespace {

// A kernel that a row does not name took longer there than so many times its fastest.
constexpr double kUnnamed = 1.5;
// What is modelled at so many times what another should take is slower, however wrong the model may
// be.
constexpr double kHopeless = 2.5;
// Of the model beside a table's rows: it counts as one 1.4 octaves away on which it is right.
constexpr double kModelWeight = 1.0 / 2;
// By how much another class has to be faster than sequential sums for one product: batches of it
// will be bound to the class, and run fastest sequentially.
constexpr double kClassSeconds = 0.3e-6;

// Of a row that says nothing of a kernel.
constexpr double kSilent = std::numeric_limits<double>::quiet_NaN();

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

const MeasuredKernel* FindNamed(const TuningRow& row, std::string_view name) {
  for (const MeasuredKernel& measured : row.kernels) {
    if (measured.kernel == name) return &measured;
  }
  return nullptr;
}

// What a kernel that the row does not name took at least.
double LeastUnnamed(const TuningRow& row) {
  const double least = kUnnamed * row.kernels.front().microseconds;
  // A full row names the fastest only.
  const MeasuredKernel& last = row.kernels.back();
  return last.kernel.empty() ? least : std::min(least, last.microseconds);
}

// How long a kernel took at a row over how long it should have, as a logarithm. Nothing where it
// should have taken longer than is known.
double ErrorAt(const TuningRow& row, std::string_view name, double modelled_seconds) {
  const MeasuredKernel* named = FindNamed(row, name);
  const double seconds = 1e-6 * (named != nullptr ? named->microseconds : LeastUnnamed(row));
  if (named == nullptr && modelled_seconds >= seconds) return kSilent;
  return std::log(seconds / modelled_seconds);
}

}  // namespace

Selector::Selector(const DeviceInfo& device, std::span<const KernelFamily* const> families,
                   const TuningTable& table)
    : device_(device), families_(families) {
  for (const KernelFamily* family : families_) {
    const int configs = static_cast<int>(family->configs().size());
    for (int config = 0; config < configs; ++config) {
      const KernelRef kernel{family, config};
      types_[static_cast<size_t>(kernel.get().dtype)].kernels.push_back(kernel);
    }
  }
  for (const TuningRow& row : table.rows) AddRow(row);
}

void Selector::AddRow(const TuningRow& row) {
  OfType& type = types_[static_cast<size_t>(row.dtype)];
  type.rows.push_back(&row);
  type.places.Add(row.place);
  const Problem product = ProductOf(row);
  for (const KernelRef& kernel : type.kernels) {
    const bool runs = kernel.family->WhyNot(product, device_, kernel.config).empty();
    type.errors.push_back(
        runs ? ErrorAt(row, kernel.get().name,
                       kernel.family->ModelSeconds(product, device_, kernel.config))
             : kSilent);
  }
}

bool Selector::Runs(const Problem& problem, Class numerics, const KernelRef& kernel) const {
  // The class first: it spares most configurations the words of their WhyNot.
  return (!numerics || kernel.get().numerics == *numerics) &&
         kernel.family->WhyNot(problem, device_, kernel.config).empty();
}

// No measured row says anything of a product without a sum.
NearPlaces Selector::RowsFor(const Problem& problem) const {
  return ReadsAB(problem) ? TypeOf(problem).places.Nearest(PlaceOf(problem)) : NearPlaces();
}

// By the mean of the model's errors at near rows, weighted with the inverse square of their
// distances. A row of the problem itself speaks alone.
double Selector::Corrected(const OfType& type, const NearPlaces& near,
                           const Contender& contender) const {
  double errors = 0;
  double weights = kModelWeight;
  for (const NearPlaces::Near& row : near.span()) {
    const double error = type.errors[row.number * type.kernels.size() + contender.kernel];
    if (std::isnan(error)) continue;
    if (row.squared_distance == 0) return contender.modelled_seconds * std::exp(error);
    errors += error / row.squared_distance;
    weights += 1 / row.squared_distance;
  }
  return contender.modelled_seconds * std::exp(errors / weights);
}

// Of those that Corrected looks at; or null.
const TuningRow* Selector::NearestThatNames(const OfType& type, const NearPlaces& near,
                                            size_t kernel) const {
  for (const NearPlaces::Near& row : near.span()) {
    if (std::isnan(type.errors[row.number * type.kernels.size() + kernel])) continue;
    const TuningRow& named = *type.rows[row.number];
    if (FindNamed(named, type.kernels[kernel].get().name) != nullptr) return &named;
    if (row.squared_distance == 0) return nullptr;
  }
  return nullptr;
}

// Those that can run the problem, by their modelled times.
std::vector<Selector::Contender> Selector::Contenders(const Problem& problem,
                                                      Class numerics) const {
  const std::vector<KernelRef>& kernels = TypeOf(problem).kernels;
  std::vector<Contender> legal;
  legal.reserve(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!Runs(problem, numerics, kernels[i])) continue;
    legal.push_back({i, kernels[i].family->ModelSeconds(problem, device_, kernels[i].config)});
  }
  std::sort(legal.begin(), legal.end(), [](const Contender& a, const Contender& b) {
    return std::pair(a.modelled_seconds, a.kernel) < std::pair(b.modelled_seconds, b.kernel);
  });
  return legal;
}

Selection Selector::Fastest(const Problem& problem, Class numerics) const {
  const OfType& type = TypeOf(problem);
  const std::vector<Contender> legal = Contenders(problem, numerics);
  Selection selection;
  if (legal.empty()) {
    selection.reason = "no kernel can run it";
    return selection;
  }
  const NearPlaces near = RowsFor(problem);
  std::pair<double, size_t> least;  // seconds, and the kernel
  for (const Contender& contender : legal) {
    const bool first = selection.kernel.family == nullptr;
    if (!first && contender.modelled_seconds > kHopeless * least.first) break;
    const KernelRef& kernel = type.kernels[contender.kernel];
    const bool binds = !numerics && kernel.get().numerics != NumericsClass::kSequential;
    const double seconds = Corrected(type, near, contender) + (binds ? kClassSeconds : 0);
    if (!first && std::pair(seconds, contender.kernel) > least) continue;
    selection.kernel = kernel;
    least = {seconds, contender.kernel};
  }
  selection.row = NearestThatNames(type, near, least.second);
  selection.reason = legal.size() == 1          ? "only one"
                     : selection.row != nullptr ? "measured"
                                                : "modelled";
  return selection;
}

Selection Selector::Forced(const Problem& problem, std::string_view forced) const {
  Selection selection;
  for (const OfType& type : types_) {
    for (const KernelRef& kernel : type.kernels) {
      if (kernel.get().name == forced) selection.kernel = kernel;
    }
  }
  if (selection.kernel.family == nullptr) {
    selection.reason = "no kernel is named " + std::string(forced);
    return selection;
  }
  const std::string why_not =
      selection.kernel.family->WhyNot(problem, device_, selection.kernel.config);
  selection.reason = why_not.empty() ? "forced" : std::string(forced) + ": " + why_not;
  if (!why_not.empty()) selection.kernel = {};
  return selection;
}

Selection Selector::Select(const Problem& problem, std::string_view forced) const {
  if (!forced.empty()) return Forced(problem, forced);
  // Without a product there is no sum to have a class.
  if (!ReadsAB(problem)) return Fastest(problem, std::nullopt);
  const Problem canonical = Canonical(problem);
  Selection first = Fastest(canonical, std::nullopt);
  if (first.kernel.family == nullptr) return Fastest(problem, std::nullopt);
  if (canonical == problem) return first;
  Selection selection = Fastest(problem, first.kernel.get().numerics);
  return selection.kernel.family != nullptr ? selection : Fastest(problem, std::nullopt);
}

Selection Selector::Explain(const Problem& problem, std::string_view forced) const {
  const OfType& type = TypeOf(problem);
  const NearPlaces near = RowsFor(problem);
  Selection selection = Select(problem, forced);
  size_t of_type = 0;
  for (const KernelFamily* family : families_) {
    const int configs = static_cast<int>(family->configs().size());
    for (int config = 0; config < configs; ++config) {
      Candidate candidate;
      candidate.kernel = {family, config};
      const KernelConfig& kernel = candidate.kernel.get();
      const size_t index = kernel.dtype == problem.dtype ? of_type++ : 0;
      if (!forced.empty() && kernel.name != forced) continue;
      candidate.why_not = family->WhyNot(problem, device_, config);
      if (candidate.why_not.empty()) {
        candidate.modelled_seconds = family->ModelSeconds(problem, device_, config);
        if (selection.row != nullptr && NearestThatNames(type, near, index) != nullptr) {
          candidate.corrected_seconds = Corrected(type, near, {index, candidate.modelled_seconds});
        }
      }
      selection.candidates.push_back(std::move(candidate));
    }
  }
  return selection;
}

KernelRef Selector::SelectForGroup(const Problem& problem, const KernelRef& alone) const {
  // Without a product any class has the same bits.
  const Class numerics = ReadsAB(problem) ? Class(alone.get().numerics) : std::nullopt;
  KernelRef best;
  double least_seconds = 0;
  for (const KernelRef& kernel : TypeOf(problem).kernels) {
    if (!kernel.family->Groups(kernel.config) || !Runs(problem, numerics, kernel)) continue;
    const double seconds = kernel.family->ModelSeconds(problem, device_, kernel.config);
    if (best.family == nullptr || seconds < least_seconds) {
      best = kernel;
      least_seconds = seconds;
    }
  }
  return best;
}

Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced,
                 const TuningTable& table) {
  return Selector(device, families, table).Select(problem, forced);
}

Selection Select(const Problem& problem, const DeviceInfo& device,
                 std::span<const KernelFamily* const> families, std::string_view forced) {
  return Selector(device, families).Select(problem, forced);
}

}  // namespace gemm
