#include "server/engine/job.h"

#include <utility>

namespace gemm {

void Finish(std::unique_ptr<Job> job, absl::Status status) {
  auto done = std::move(job->done);
  std::move(done)(std::move(status), std::move(job));
}

uint64_t HeldBytes(const Job& job) { return job.input.size_bytes() + job.output.size_bytes(); }

}  // namespace gemm
