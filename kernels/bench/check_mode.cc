#include <cstdio>

#include "kernels/bench/device_check.h"
#include "kernels/bench/modes.h"
#include "kernels/registry.h"

namespace gemm {

int RunCheck(const Flags& flags) {
  DeviceInfo device;
  if (const std::string fault = OpenDevice(flags, &device); !fault.empty()) return Refuse(fault);
  const CaseSet set = flags.quick ? CaseSet::kQuick : CaseSet::kFull;
  CheckReport report;
  for (DType dtype : DTypes(flags)) {
    if (!report.device_lost) {
      report.Merge(CheckFamilies(Families(), device, dtype, set, flags.kernel));
    }
    if (!report.device_lost) {
      report.Merge(CheckGroups(Families(), device, dtype, set, flags.kernel));
    }
    if (flags.large && !report.device_lost) {
      report.Merge(CheckLarge(Families(), device, dtype, flags.kernel));
    }
  }
  std::printf("%-26s %8s %8s %12s  %s\n", "kernel", "passed", "failed", "worst ratio", "where");
  for (const KernelTally& tally : report.kernels) {
    std::printf("%-26s %8d %8d %12.3f  %s\n", tally.kernel.c_str(), tally.passed, tally.failed,
                tally.worst_ratio, tally.worst_case.c_str());
  }
  constexpr size_t kShown = 40;
  for (size_t i = 0; i < report.failures.size() && i < kShown; ++i) {
    const CheckFailure& failure = report.failures[i];
    std::printf("FAILED %s: %s: %s: %s\n", failure.kernel.c_str(), failure.case_name.c_str(),
                failure.checker.c_str(), failure.fault.c_str());
  }
  if (report.failures.size() > kShown) {
    std::printf("and %zu more failures\n", report.failures.size() - kShown);
  }
  std::printf("%d passed, %d failed%s\n", report.passed(), report.failed(),
              report.device_lost ? "; the device was lost, the rest did not run" : "");
  if (report.passed() == 0) {
    std::printf("nothing was checked\n");
    return 1;
  }
  return report.failed() == 0 ? 0 : 1;
}

}  // namespace gemm
