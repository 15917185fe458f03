// repeat: the kernels of a product (with --kernel one) in turns, over and over, to find faults that
// depend on when things happen.

#include <cstdio>
#include <vector>

#include "kernels/bench/repetition.h"
#include "kernels/bench/session.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr double kShapeSeconds = 0.5;  // unless --shape-seconds says otherwise
// What is modelled at more than so many times the least is left out, unless --kernel names it.
constexpr double kHopeless = 4;

// What is legal and not hopeless; with --kernel that one, if it is legal.
std::vector<KernelRef> Chosen(const std::vector<Candidate>& candidates, const std::string& named) {
  double least = 0;
  for (const Candidate& candidate : candidates) {
    const double seconds = candidate.modelled_seconds;
    if (candidate.why_not.empty() && (least == 0 || seconds < least)) least = seconds;
  }
  std::vector<KernelRef> chosen;
  for (const Candidate& candidate : candidates) {
    if (!candidate.why_not.empty()) continue;
    const bool wanted = named.empty() ? candidate.modelled_seconds <= kHopeless * least
                                      : candidate.kernel.get().name == named;
    if (wanted) chosen.push_back(candidate.kernel);
  }
  return chosen;
}

cudaError_t RepeatKernels(Session& session, const Flags& flags, const BenchShape& shape,
                          const Problem& problem, int* failed) {
  Repetition repetition(session.bench(), problem);
  GEMM_RETURN_IF_CUDA_ERROR(repetition.Create());
  for (const KernelRef& kernel :
       Chosen(session.selector().Explain(problem, {}).candidates, flags.kernel)) {
    GEMM_RETURN_IF_CUDA_ERROR(repetition.Add(kernel));
  }
  GEMM_RETURN_IF_CUDA_ERROR(
      repetition.Run(flags.shape_seconds > 0 ? flags.shape_seconds : kShapeSeconds));
  for (const Repetition::Contender& contender : repetition.contenders()) {
    const std::string name(contender.kernel.get().name);
    if (!contender.fault.empty() || contender.different != 0) ++*failed;
    if (!contender.fault.empty()) {
      std::printf("%-22s %-40s FAILED its check: %s\n", NameOf(shape).c_str(), name.c_str(),
                  contender.fault.c_str());
    } else {
      std::printf("%-22s %-40s %8llu compared, %u words differ\n", NameOf(shape).c_str(),
                  name.c_str(), static_cast<unsigned long long>(contender.compared),
                  contender.different);
    }
    session.log().Write({{"kind", "repeat"},
                         {"dtype", std::string(NameOf(problem.dtype))},
                         {"shape", NameOf(shape)},
                         {"kernel", name},
                         {"fault", contender.fault},
                         {"compared", contender.compared},
                         {"different", contender.different}});
  }
  return cudaSuccess;
}

}  // namespace

int RunRepeat(const Flags& flags) {
  Session session(flags);
  if (const std::string fault = session.OpenWithShapes(); !fault.empty()) return Refuse(fault);
  int failed = 0;
  for (DType dtype : DTypes(flags)) {
    const std::string fault =
        session.ForEachShape(dtype, [&](const BenchShape& shape, const Problem& problem) {
          return RepeatKernels(session, flags, shape, problem, &failed);
        });
    if (!fault.empty()) return Refuse(fault);
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace gemm
