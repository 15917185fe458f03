#include "server/engine/engine.h"

#include <algorithm>
#include <utility>

#include "server/reason.h"

namespace gemm {

Engine::Engine(const EngineOptions& options, std::vector<std::unique_ptr<Device>> devices,
               const Clock& clock, EngineObserver& observer)
    : clock_(clock),
      observer_(observer),
      devices_(std::move(devices)),
      host_pool_(
          HostPool::Create(devices_.front()->host_memory(), options.host_memory_budget_bytes)),
      queue_(options.queue) {
  workers_.reserve(devices_.size());
  for (const auto& device : devices_) {
    workers_.emplace_back([this, &device = *device] { Work(device); });
  }
}

Engine::~Engine() { Drain(); }

void Engine::Drain() {
  queue_.Close();
  for (std::thread& worker : workers_) {
    if (worker.joinable()) worker.join();
  }
}

absl::StatusOr<HostBuffer> Engine::AllocateHost(size_t size_bytes) {
  return host_pool_->Allocate(size_bytes);
}

void Engine::Submit(std::unique_ptr<Job> job) {
  job->enqueued = clock_.Now();
  if (IsEmpty(job->problem)) {  // nothing to compute: it needs no device
    Finish(std::move(job), absl::OkStatus());
    return;
  }
  if (absl::Status status = queue_.Push(job); !status.ok()) {
    Finish(std::move(job), std::move(status));
  }
}

KernelExplanation Engine::Explain(const Problem& problem) const {
  return devices_.front()->Explain(problem);
}

bool Engine::healthy() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const auto& device) { return !device->lost(); });
}

uint64_t Engine::queued_problems() const { return queue_.problems(); }
uint64_t Engine::queued_bytes() const { return queue_.bytes(); }
uint64_t Engine::host_memory_used_bytes() const { return host_pool_->used_bytes(); }
uint64_t Engine::host_memory_budget_bytes() const { return host_pool_->budget_bytes(); }

void Engine::Work(Device& device) {
  // A lost device's worker leaves the queue to the others; the last one fails what comes.
  while (!device.lost() || !healthy()) {
    std::unique_ptr<Job> job = queue_.Pop();
    if (job == nullptr) return;

    const absl::Time now = clock_.Now();
    job->report.queue = now - job->enqueued;
    absl::Status dropped;
    if (job->cancel != nullptr && job->cancel->cancelled()) {
      dropped = ErrorWithReason(Reason::kCallerGone, "the caller has gone");
    } else if (now >= job->deadline) {
      dropped = ErrorWithReason(Reason::kDeadlinePassed, "the deadline passed in the queue");
    } else if (device.lost()) {
      dropped = ErrorWithReason(Reason::kDeviceLost, "no device is left that works");
    }
    if (!dropped.ok()) {
      observer_.OnDropped(*job, dropped);
      Finish(std::move(job), std::move(dropped));
      continue;
    }

    absl::Status status = device.Run(*job);
    observer_.OnFinished(*job, status);
    if (device.lost()) observer_.OnDeviceLost(device.description());
    Finish(std::move(job), std::move(status));
  }
}

}  // namespace gemm
