#include "kernels/bench/choices.h"

#include <cstdio>

namespace gemm {
namespace {

std::string NameOf(const KernelRef& kernel) {
  return kernel.family == nullptr ? "none" : std::string(kernel.get().name);
}

std::string Microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%12.2f", 1e6 * seconds);
  return text;
}

}  // namespace

std::string ChoicesText(std::span<const DType> dtypes, std::span<const BenchShape> shapes,
                        const DeviceInfo& device, std::span<const KernelFamily* const> families,
                        const TuningTable& table) {
  const Selector selector(device, families, table);
  std::string text;
  for (DType dtype : dtypes) {
    for (const BenchShape& shape : shapes) {
      const Selection choice = selector.Select(BenchProblem(shape, dtype));
      char line[160];
      std::snprintf(line, sizeof(line), "%-4s %-20s %-32s %s\n",
                    std::string(gemm::NameOf(dtype)).c_str(), gemm::NameOf(shape).c_str(),
                    NameOf(choice.kernel).c_str(), choice.reason.c_str());
      text += line;
    }
  }
  return text;
}

std::string ExplanationText(const Problem& problem, const DeviceInfo& device,
                            std::span<const KernelFamily* const> families,
                            const TuningTable& table) {
  const Selection selection = Selector(device, families, table).Explain(problem);
  std::string text = NameOf(selection.kernel) + ", " + selection.reason + "\n";
  if (selection.row != nullptr) {
    const TuningRow& row = *selection.row;
    text += "the nearest row that names it: " + std::to_string(row.m) + " x " +
            std::to_string(row.n) + " x " + std::to_string(row.k) + ", batch " +
            std::to_string(row.batch_count) + "\n";
  }
  char line[128];
  std::snprintf(line, sizeof(line), "  %-32s %-18s %12s %12s\n", "kernel", "sum", "modelled us",
                "corrected us");
  text += line;
  for (const Candidate& candidate : selection.candidates) {
    const KernelConfig& config = candidate.kernel.get();
    std::snprintf(line, sizeof(line), "  %-32s %-18s ", std::string(config.name).c_str(),
                  std::string(gemm::NameOf(config.numerics)).c_str());
    text += line;
    if (!candidate.why_not.empty()) {
      text += candidate.why_not + "\n";
      continue;
    }
    text += Microseconds(candidate.modelled_seconds);
    if (candidate.corrected_seconds > 0) {
      text.append(" ").append(Microseconds(candidate.corrected_seconds));
    }

    text += "\n";
  }
  return text;
}

}  // namespace gemm
