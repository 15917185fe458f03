#include <cstring>
#include <memory>
#include <vector>

#include "kernels/bench/device_case.h"
#include "kernels/bench/device_check.h"

namespace gemm {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 20;  // of an operand: there are hundreds of cases
constexpr size_t kFew = 7;

template <typename T>
struct Member {
  CheckCase check_case;
  CaseData<T> data;
  DeviceCase<T> on_device;
  HostOperand<T> alone;
  PinnedBuffer host_d;
};

bool IsModest(const Problem& problem) {
  return ExtentElements(StoredA(problem), problem.a, problem.batch_count) <= kMostElements &&
         ExtentElements(StoredB(problem), problem.b, problem.batch_count) <= kMostElements &&
         ExtentElements(StoredC(problem), problem.d, problem.batch_count) <= kMostElements;
}

template <typename T>
class GroupCheck {
 public:
  GroupCheck(const KernelRef& kernel, const DeviceInfo& device, CheckReport* report)
      : kernel_(kernel), device_(device), report_(report) {}

  cudaError_t Run(CaseSet set) {
    uint64_t seed = 1000;
    for (const CheckCase& check_case : CheckCases(kernel_.get().dtype, set)) {
      seed += 3;
      const Problem& problem = check_case.problem;
      if (!IsModest(problem)) continue;
      if (!kernel_.family->WhyNot(problem, device_, kernel_.config).empty()) continue;
      auto member = std::make_unique<Member<T>>();
      member->check_case = check_case;
      member->data = MakeCaseData<T>(check_case, seed);
      GEMM_RETURN_IF_CUDA_ERROR(member->on_device.Create(check_case, member->data));
      GEMM_RETURN_IF_CUDA_ERROR(
          member->on_device.Run(kernel_, problem, device_, member->data.d, &member->alone));
      members_.push_back(std::move(member));
    }
    if (members_.size() < 2) return cudaSuccess;
    GEMM_RETURN_IF_CUDA_ERROR(Together(members_.size(), false));
    GEMM_RETURN_IF_CUDA_ERROR(Together(std::min(members_.size(), kFew), false));
    return Together(members_.size(), true);
  }

 private:
  // The first `count` cases in one launch.
  cudaError_t Together(size_t count, bool to_host) {
    std::vector<Problem> problems;
    std::vector<Operands> operands;
    for (size_t i = 0; i < count; ++i) {
      Member<T>& member = *members_[i];
      problems.push_back(member.check_case.problem);
      operands.push_back(member.on_device.operands());
      const HostOperand<T>& fresh = member.data.d;
      if (!to_host) {
        GEMM_RETURN_IF_CUDA_ERROR(member.on_device.Refresh(fresh));
        continue;
      }
      const size_t bytes = fresh.buffer.size() * sizeof(T);
      GEMM_RETURN_IF_CUDA_ERROR(member.host_d.Create(bytes));
      std::memcpy(member.host_d.data(), fresh.buffer.data(), bytes);
      operands.back().d = static_cast<T*>(member.host_d.data()) + fresh.offset;
      if (member.check_case.c_is_d) operands.back().c = operands.back().d;
    }
    PreparedLaunch launch;
    GEMM_RETURN_IF_CUDA_ERROR(launch.Create(kernel_, problems, operands, device_));
    const cudaStream_t stream = members_.front()->on_device.stream();
    GEMM_RETURN_IF_CUDA_ERROR(launch.Launch(stream));
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < count; ++i) {
      const Member<T>& member = *members_[i];
      const CheckCase& check_case = member.check_case;
      const HostOperand<T>& fresh = member.data.d;
      HostOperand<T> result;
      if (to_host) {
        result = fresh;
        std::memcpy(result.buffer.data(), member.host_d.data(), member.host_d.bytes());
      } else {
        GEMM_RETURN_IF_CUDA_ERROR(member.on_device.Download(fresh, &result));
      }
      const char* const checker = to_host ? "group to host" : "group";
      Verdict verdict = CheckSameBits(check_case.problem, member.alone, result);
      if (verdict.ok) verdict = CheckCanaries(check_case.problem, fresh, result);
      report_->Add(kernel_.get().name, check_case.name, checker, verdict);
    }
    return cudaSuccess;
  }

  const KernelRef kernel_;
  const DeviceInfo& device_;
  CheckReport* const report_;
  std::vector<std::unique_ptr<Member<T>>> members_;
};

}  // namespace

CheckReport CheckGroups(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                        DType dtype, CaseSet set, std::string_view only) {
  CheckReport report;
  for (const KernelFamily* family : families) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelRef kernel{family, static_cast<int>(config)};
      if (kernel.get().dtype != dtype || !family->Groups(kernel.config)) continue;
      if (!only.empty() && kernel.get().name != only) continue;
      cudaError_t error = family->Prepare(device);
      if (error == cudaSuccess) {
        error = dtype == DType::kF32 ? GroupCheck<float>(kernel, device, &report).Run(set)
                                     : GroupCheck<double>(kernel, device, &report).Run(set);
      }
      if (error == cudaSuccess) continue;
      Verdict verdict;
      verdict.ok = false;
      verdict.fault = CudaErrorText(error);
      report.Add(kernel.get().name, "(group)", "runs", verdict);
      report.device_lost = IsPoisoning(error);
      if (report.device_lost) return report;
    }
  }
  return report;
}

}  // namespace gemm
