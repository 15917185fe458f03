#include "kernels/bench/device_check.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kernels/bench/case_data.h"
#include "kernels/bench/device_case.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

Verdict VerdictOf(cudaError_t error) {
  Verdict verdict;
  verdict.ok = error == cudaSuccess;
  if (!verdict.ok) verdict.fault = CudaErrorText(error);
  return verdict;
}

template <typename T>
void CheckOne(const CheckCase& check_case, uint64_t seed, std::span<const KernelRef> kernels,
              const DeviceInfo& device, CheckReport* report) {
  const Problem& problem = check_case.problem;
  // What none of them can run needs no right answer.
  const auto runs = [&](const KernelRef& kernel) {
    return kernel.family->WhyNot(problem, device, kernel.config).empty();
  };
  if (std::none_of(kernels.begin(), kernels.end(), runs)) return;
  const CaseData<T> data = MakeCaseData<T>(check_case, seed);
  const Expected<T> expected = ExpectedResult<T>(problem, data);
  DeviceCase<T> on_device;
  if (const cudaError_t error = on_device.Create(check_case, data); error != cudaSuccess) {
    report->Add("(set-up)", check_case.name, "runs", VerdictOf(error));
    report->device_lost = IsPoisoning(error);
    return;
  }
  std::map<NumericsClass, HostOperand<T>> class_results;
  for (const KernelRef& kernel : kernels) {
    if (!runs(kernel)) continue;
    const std::string_view name = kernel.get().name;
    HostOperand<T> once;
    HostOperand<T> twice;
    cudaError_t error = on_device.Run(kernel, problem, device, data.d, &once);
    if (error == cudaSuccess) error = on_device.Run(kernel, problem, device, data.d, &twice);
    report->Add(name, check_case.name, "runs", VerdictOf(error));
    if (error != cudaSuccess) {
      report->device_lost = IsPoisoning(error);
      if (report->device_lost) return;
      continue;
    }
    if (check_case.fill == Fill::kReals) {
      Verdict verdict = CheckBounded(problem, expected, once);
      // Without a sum the ratio is that of one rounding to one rounding: it says nothing.
      if (!ReadsAB(problem)) verdict.worst_ratio = 0;
      report->Add(name, check_case.name, "bounded", verdict);
    } else {
      report->Add(name, check_case.name, "exact", CheckExact(problem, expected, once));
    }
    report->Add(name, check_case.name, "canaries", CheckCanaries(problem, data.d, once));
    report->Add(name, check_case.name, "repeat", CheckSameBits(problem, once, twice));
    const auto [first, added] = class_results.try_emplace(kernel.get().numerics, once);
    if (!added) {
      report->Add(name, check_case.name, "class", CheckSameBits(problem, first->second, once));
    }
  }
}

}  // namespace

CheckReport CheckFamilies(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                          DType dtype, CaseSet set, std::string_view only) {
  CheckReport report;
  // Last family first, so that the others are measured against the reference's bits.
  std::vector<KernelRef> kernels;
  for (size_t f = families.size(); f-- > 0;) {
    const KernelFamily& family = *families[f];
    if (const cudaError_t error = family.Prepare(device); error != cudaSuccess) {
      report.Add(family.name(), "Prepare", "runs", VerdictOf(error));
      continue;
    }
    for (size_t config = 0; config < family.configs().size(); ++config) {
      if (family.configs()[config].dtype != dtype) continue;
      if (!only.empty() && family.configs()[config].name != only) continue;
      kernels.push_back({&family, static_cast<int>(config)});
    }
  }
  uint64_t seed = 1;
  for (const CheckCase& check_case : CheckCases(dtype, set)) {
    seed += 3;
    if (dtype == DType::kF32) {
      CheckOne<float>(check_case, seed, kernels, device, &report);
    } else {
      CheckOne<double>(check_case, seed, kernels, device, &report);
    }
    if (report.device_lost) break;
  }
  return report;
}

}  // namespace gemm
