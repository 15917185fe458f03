// Runs one job on a device's first lane, without an engine.

#ifndef GEMMD_TESTS_SERVER_ENGINE_RUN_ONE_H_
#define GEMMD_TESTS_SERVER_ENGINE_RUN_ONE_H_

#include <memory>
#include <utility>

#include "server/engine/device.h"

namespace gemm {

// The first error of its products, if any.
inline absl::Status RunOne(Device& device, Job& job) {
  Batch batch;
  batch.problems = static_cast<uint32_t>(CostOf(job).problems);
  batch.jobs.push_back(std::make_unique<Job>(std::move(job)));
  device.Run(0, batch);
  job = std::move(*batch.jobs[0]);
  absl::Status status;
  for (const JobProduct& product : job.products) status.Update(product.status);
  return status;
}

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_ENGINE_RUN_ONE_H_
