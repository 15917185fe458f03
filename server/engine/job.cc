#include "server/engine/job.h"

#include <utility>

namespace gemm {

void Finish(std::unique_ptr<Job> job, absl::Status status) {
  auto done = std::move(job->done);
  std::move(done)(std::move(status), std::move(job));
}

double EstimatedSeconds(const Job& job) {
  // The orders of magnitude of an H200: launch and completion, PCIe, FFMA.
  constexpr double kFixedSeconds = 5e-6;
  constexpr double kBytesPerSecond = 50e9;
  const double flops_per_second = job.problem.dtype == DType::kF32 ? 40e12 : 10e12;
  return kFixedSeconds + static_cast<double>(HeldBytes(job)) / kBytesPerSecond +
         FlopCount(job.problem) / flops_per_second;
}

uint64_t HeldBytes(const Job& job) { return job.input.size_bytes() + job.output.size_bytes(); }

}  // namespace gemm
