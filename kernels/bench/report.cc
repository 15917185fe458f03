#include "kernels/bench/report.h"

#include <utility>

namespace gemm {

KernelTally& CheckReport::TallyOf(std::string_view kernel) {
  for (KernelTally& tally : kernels) {
    if (tally.kernel == kernel) return tally;
  }
  kernels.push_back({.kernel = std::string(kernel)});
  return kernels.back();
}

void CheckReport::Add(std::string_view kernel, const std::string& case_name, const char* checker,
                      const Verdict& verdict) {
  KernelTally& tally = TallyOf(kernel);
  if (verdict.worst_ratio > tally.worst_ratio) {
    tally.worst_ratio = verdict.worst_ratio;
    tally.worst_case = case_name;
  }
  if (verdict.ok) {
    ++tally.passed;
    return;
  }
  ++tally.failed;
  failures.push_back({std::string(kernel), case_name, checker, verdict.fault});
}

void CheckReport::Merge(CheckReport other) {
  for (const KernelTally& from : other.kernels) {
    KernelTally& tally = TallyOf(from.kernel);
    tally.passed += from.passed;
    tally.failed += from.failed;
    if (from.worst_ratio > tally.worst_ratio) {
      tally.worst_ratio = from.worst_ratio;
      tally.worst_case = from.worst_case;
    }
  }
  for (CheckFailure& failure : other.failures) failures.push_back(std::move(failure));
  device_lost = device_lost || other.device_lost;
}

int CheckReport::passed() const {
  int sum = 0;
  for (const KernelTally& tally : kernels) sum += tally.passed;
  return sum;
}

int CheckReport::failed() const {
  int sum = 0;
  for (const KernelTally& tally : kernels) sum += tally.failed;
  return sum;
}

}  // namespace gemm
