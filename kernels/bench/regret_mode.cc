// regret: how much slower the chosen kernel is than the best of all that are legal, on shapes that
// were not tuned; by the table and by the model alone, from the same times. And than the best of
// those that may be chosen, since a batch is bound to the class of one product. With --from it
// judges recorded times: a change of the table or of the rules shows without a GPU. With --unseen
// too it judges tuned products, each by the others' rows.

#include <algorithm>
#include <cstdio>
#include <limits>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/measured_times.h"
#include "kernels/bench/session.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"

namespace gemm {
namespace {

constexpr double kGoalMean = 1.03;
constexpr double kGoalWorst = 1.15;

class Regrets {
 public:
  // What has no time counts as so many times slower than the best; 0: not at all.
  Regrets(const DeviceInfo& device, std::span<const KernelFamily* const> families, double untimed,
          RunLog* log)
      : by_model_(device, families, TuningTable{}), untimed_(untimed), log_(log) {}

  void Judge(const ShapeTimes& times, const Selector& selector) {
    if (times.kernels.empty()) return;
    const Problem problem = BenchProblem(times.shape, times.dtype);
    const Selection by_table = selector.Select(problem);
    const KernelMicroseconds* best = &times.kernels[0];
    double best_bound = std::numeric_limits<double>::infinity();
    for (const KernelMicroseconds& kernel : times.kernels) {
      if (kernel.microseconds < best->microseconds) best = &kernel;
      if (MayRun(problem, by_table, selector.Select(problem, kernel.kernel))) {
        best_bound = std::min(best_bound, kernel.microseconds);
      }
    }
    const Selection by_model = by_model_.Select(problem);
    const double table = RegretOf(by_table, times, best->microseconds);
    // What has no time may be the only one of its class.
    const double bound = table > 0 ? std::max(1.0, table * best->microseconds / best_bound) : 0;
    const double model = RegretOf(by_model, times, best->microseconds);
    std::printf("%-4s %-24s %10.2f us %-30s %6.3f %-30s (%s) %6.3f %s\n",
                std::string(NameOf(times.dtype)).c_str(), NameOf(times.shape).c_str(),
                best->microseconds, best->kernel.c_str(), table, KernelOf(by_table).c_str(),
                by_table.reason.c_str(), model, KernelOf(by_model).c_str());
    log_->Write({{"kind", "regret"},
                 {"dtype", std::string(NameOf(times.dtype))},
                 {"shape", NameOf(times.shape)},
                 {"best", best->kernel},
                 {"best_us", best->microseconds},
                 {"chosen", KernelOf(by_table)},
                 {"reason", by_table.reason},
                 {"regret", table},
                 {"bound_regret", bound},
                 {"modelled", KernelOf(by_model)},
                 {"modelled_regret", model}});
    if (table > 0) {
      table_regrets_.push_back(table);
      bound_regrets_.push_back(bound);
    }
    if (model > 0) model_regrets_.push_back(model);
  }

  void Print(bool no_table) const {
    const auto line = [&](const char* what, const std::vector<double>& regrets) {
      if (regrets.empty()) return;
      const double mean = GeometricMean(regrets);
      const double worst = *std::max_element(regrets.begin(), regrets.end());
      std::printf("%s: %zu shapes, geometric mean %.3f (goal %.2f), worst %.3f (goal %.2f)\n", what,
                  regrets.size(), mean, kGoalMean, worst, kGoalWorst);
      log_->Write({{"kind", "regret_mean"},
                   {"by", what},
                   {"shapes", regrets.size()},
                   {"mean", mean},
                   {"worst", worst}});
    };
    if (!no_table) {
      line("with the table, of those that may be chosen", bound_regrets_);
      line("with the table", table_regrets_);
    }
    line("without the table", model_regrets_);
  }

 private:
  static std::string KernelOf(const Selection& selection) {
    return selection.kernel.family == nullptr ? "none" : std::string(selection.kernel.get().name);
  }

  // One product may be summed in any class, a batch in that of the chosen kernel.
  static bool MayRun(const Problem& problem, const Selection& chosen, const Selection& other) {
    if (chosen.kernel.family == nullptr || other.kernel.family == nullptr) return false;
    return problem.batch_count == 1 || chosen.kernel.get().numerics == other.kernel.get().numerics;
  }

  double RegretOf(const Selection& selection, const ShapeTimes& times, double best) {
    for (const KernelMicroseconds& kernel : times.kernels) {
      if (kernel.kernel == KernelOf(selection)) return kernel.microseconds / best;
    }
    std::printf("%s was chosen for %s but has no time\n", KernelOf(selection).c_str(),
                NameOf(times.shape).c_str());
    return untimed_;
  }

  const Selector by_model_;
  const double untimed_;
  RunLog* const log_;
  std::vector<double> table_regrets_;
  std::vector<double> bound_regrets_;
  std::vector<double> model_regrets_;
};

// The rows of all products but one.
std::vector<TuningRow> OthersThan(const Problem& problem, const TuningTable& table) {
  std::vector<TuningRow> others;
  for (const TuningRow& row : table.rows) {
    if (ProductOf(row) != problem) others.push_back(row);
  }
  return others;
}

int Replay(const Flags& flags) {
  // Of tuned products what has no time was given up as this much slower.
  constexpr double kGivenUp = 1.5;
  std::vector<ShapeTimes> recorded;
  if (!ReadTimes(flags.from, &recorded)) return Refuse("cannot read times from " + flags.from);
  const DeviceInfo device = H200();
  KeepLegal(device, &recorded);
  RunLog log;
  if (!log.Open(flags.json)) return Refuse("cannot write " + flags.json);
  const TuningTable table = TableFor(flags, device);
  const Selector selector(device, Families(), table);
  Regrets regrets(device, Families(), flags.unseen ? kGivenUp : 0, &log);
  for (const ShapeTimes& times : recorded) {
    if (!flags.unseen) {
      regrets.Judge(times, selector);
      continue;
    }
    const std::vector<TuningRow> others = OthersThan(BenchProblem(times.shape, times.dtype), table);
    regrets.Judge(times, Selector(device, Families(), {0, 0, others}));
  }
  regrets.Print(flags.no_table);
  return 0;
}

}  // namespace

int RunRegret(const Flags& flags) {
  if (!flags.from.empty()) return Replay(flags);
  Session session(flags);
  if (const std::string fault = session.OpenWithShapes(); !fault.empty()) return Refuse(fault);

  MeasureOptions options;
  // Better looks than tuning takes, and at everything that the device can run.
  options.hopeless = std::numeric_limits<double>::infinity();
  options.pace = {.graph_seconds = 5e-4, .seconds = 0.08, .min_rounds = 7, .max_rounds = 25};
  if (flags.shape_seconds > 0) options.pace.seconds = flags.shape_seconds;
  int faults = 0;
  Regrets regrets(session.device(), session.families(), 0, &session.log());
  for (DType dtype : DTypes(flags)) {
    const std::string fault =
        session.ForEachShape(dtype, [&](const BenchShape& shape, const Problem&) {
          constexpr bool kWithRough = true;
          ShapeTimes record;
          GEMM_RETURN_IF_CUDA_ERROR(
              MeasureShape(session, dtype, shape, options, kWithRough, &record, &faults));
          regrets.Judge(record, session.selector());
          return cudaSuccess;
        });
    if (!fault.empty()) return Refuse(fault);
  }
  regrets.Print(flags.no_table);
  return faults == 0 ? 0 : 1;
}

}  // namespace gemm
