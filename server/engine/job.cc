#include "server/engine/job.h"

#include <utility>

namespace gemm {

void Finish(std::unique_ptr<Job> job, absl::Status status) {
  auto done = std::move(job->done);
  std::move(done)(std::move(status), std::move(job));
}

bool NeedsDevice(const JobProduct& product) {
  return product.status.ok() && !product.result_exists && !IsEmpty(product.problem);
}

JobCost CostOf(const Job& job) {
  // The orders of magnitude of an H200: completion, launch, PCIe, FFMA.
  constexpr double kJobSeconds = 4e-6;
  constexpr double kProductSeconds = 1e-6;
  constexpr double kBytesPerSecond = 50e9;
  JobCost cost;
  cost.bytes = job.input.size_bytes() + job.output.size_bytes();
  cost.seconds = kJobSeconds + static_cast<double>(cost.bytes) / kBytesPerSecond;
  for (const JobProduct& product : job.products) {
    if (!NeedsDevice(product)) continue;
    const double flops = FlopCount(product.problem);
    const double flops_per_second = product.problem.dtype == DType::kF32 ? 40e12 : 10e12;
    ++cost.problems;
    cost.flops += flops;
    cost.seconds += kProductSeconds + flops / flops_per_second;
  }
  return cost;
}

}  // namespace gemm
