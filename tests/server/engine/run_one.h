// Runs one job on a device's first lane, without an engine.

#ifndef GEMMD_TESTS_SERVER_ENGINE_RUN_ONE_H_
#define GEMMD_TESTS_SERVER_ENGINE_RUN_ONE_H_

#include <memory>
#include <utility>

#include "server/engine/device.h"

namespace gemm {

inline absl::Status RunOne(Device& device, Job& job) {
  Batch batch;
  batch.jobs.push_back(std::make_unique<Job>(std::move(job)));
  batch.statuses.resize(1);
  device.Run(0, batch);
  job = std::move(*batch.jobs[0]);
  return batch.statuses[0];
}

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_ENGINE_RUN_ONE_H_
