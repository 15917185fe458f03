// repeat: each legal kernel (with --kernel one) over and over on the same operands, every other
// result compared bit for bit with the kernel's first. A fault that depends on when things happen
// shows in one launch of many; timing compares no results.

#include <algorithm>
#include <cstdio>

#include "kernels/bench/count_different.h"
#include "kernels/bench/session.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr int kSamples = 64;
constexpr double kKernelSeconds = 0.1;  // unless --shape-seconds says otherwise
// Between two looks at the time.
constexpr double kMostComparisons = 64;
constexpr double kLookSeconds = 0.02;

struct Repeats {
  std::string fault;  // of the first result
  uint64_t compared = 0;
  unsigned different = 0;  // words, of all results; 2^32 and more wrap around
};

cudaError_t Repeat(Session& session, const KernelRef& kernel, const Problem& problem,
                   ResultCheck& check, double seconds, Repeats* repeats) {
  Workbench& bench = session.bench();
  const cudaStream_t stream = bench.stream();
  PreparedRotation rotation;
  GEMM_RETURN_IF_CUDA_ERROR(rotation.Create(kernel, problem, bench.arena().sets(), bench.device()));
  double once = 0;
  GEMM_RETURN_IF_CUDA_ERROR(
      check.Run([&rotation](cudaStream_t on) { return rotation.Launch(0, on); },
                &kernel.get().numerics, stream, &repeats->fault, &once));
  if (!repeats->fault.empty()) return cudaSuccess;

  const void* d = bench.arena().sets().front().d;
  const size_t bytes = bench.arena().result_bytes();
  DeviceBuffer first;
  DeviceBuffer count;
  GEMM_RETURN_IF_CUDA_ERROR(first.Create(bytes));
  GEMM_RETURN_IF_CUDA_ERROR(count.Create(sizeof(unsigned)));
  GEMM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(first.data(), d, bytes, cudaMemcpyDeviceToDevice, stream));
  GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(count.data(), 0, sizeof(unsigned), stream));
  const auto at_once = static_cast<int>(std::clamp(kLookSeconds / once, 1.0, kMostComparisons));
  const double end = session.elapsed() + seconds;
  do {
    for (int i = 0; i < at_once; ++i) {
      // The second may start while the first still runs.
      GEMM_RETURN_IF_CUDA_ERROR(rotation.Launch(0, stream));
      GEMM_RETURN_IF_CUDA_ERROR(rotation.Launch(0, stream));
      GEMM_RETURN_IF_CUDA_ERROR(
          CountDifferent(d, first.data(), bytes, static_cast<unsigned*>(count.data()), stream));
    }
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
    repeats->compared += static_cast<uint64_t>(at_once);
  } while (session.elapsed() < end);
  return cudaMemcpy(&repeats->different, count.data(), sizeof(unsigned), cudaMemcpyDeviceToHost);
}

cudaError_t RepeatKernels(Session& session, const Flags& flags, const BenchShape& shape,
                          const Problem& problem, int* failed) {
  Workbench& bench = session.bench();
  ResultCheck check;
  GEMM_RETURN_IF_CUDA_ERROR(bench.arena().Create(problem, bench.device(), 1, bench.stream()));
  GEMM_RETURN_IF_CUDA_ERROR(check.Create(problem, bench.arena(), kSamples));
  const double seconds = flags.shape_seconds > 0 ? flags.shape_seconds : kKernelSeconds;
  for (const Candidate& candidate : session.selector().Explain(problem, {}).candidates) {
    const std::string name(candidate.kernel.get().name);
    if (!candidate.why_not.empty() || (!flags.kernel.empty() && name != flags.kernel)) continue;
    Repeats repeats;
    GEMM_RETURN_IF_CUDA_ERROR(Repeat(session, candidate.kernel, problem, check, seconds, &repeats));
    if (!repeats.fault.empty() || repeats.different != 0) ++*failed;
    if (!repeats.fault.empty()) {
      std::printf("%-22s %-40s FAILED its check: %s\n", NameOf(shape).c_str(), name.c_str(),
                  repeats.fault.c_str());
    } else {
      std::printf("%-22s %-40s %8llu compared, %u words differ\n", NameOf(shape).c_str(),
                  name.c_str(), static_cast<unsigned long long>(repeats.compared),
                  repeats.different);
    }
    session.log().Write({{"kind", "repeat"},
                         {"dtype", std::string(NameOf(problem.dtype))},
                         {"shape", NameOf(shape)},
                         {"kernel", name},
                         {"fault", repeats.fault},
                         {"compared", repeats.compared},
                         {"different", repeats.different}});
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
