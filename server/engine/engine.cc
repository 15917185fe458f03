#include "server/engine/engine.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "server/reason.h"

namespace gemm {
namespace {

// Nobody else's thread is kept longer by a job's products. What is small for a GPU may be large for
// a CPU.
constexpr double kSecondsOnCallersThread = 100e-6;

double ComputeSeconds(const Job& job, const DeviceDescription& device) {
  double seconds = 0;
  for (const JobProduct& product : job.products) {
    const double ceiling =
        device.ceiling_flops_per_second[static_cast<size_t>(product.problem.dtype)];
    if (NeedsDevice(product) && ceiling > 0) seconds += FlopCount(product.problem) / ceiling;
  }
  return seconds;
}

}  // namespace

Engine::Engine(const EngineOptions& options, std::vector<std::unique_ptr<Device>> devices,
               const Clock& clock, EngineObserver& observer)
    : clock_(clock),
      observer_(observer),
      small_jobs_on_callers_thread_(options.small_jobs_on_callers_thread),
      devices_(std::move(devices)),
      host_pool_(
          HostPool::Create(devices_.front()->host_memory(), options.host_memory_budget_bytes)),
      queue_(options.queue),
      lending_(devices_.size()) {
  std::vector<std::vector<LaneKind>> kinds;
  size_t most_lanes = 0;
  for (const auto& device : devices_) {
    loss_reported_.emplace_back();
    kinds.push_back(device->lanes());
    if (options.lanes_per_device > 0 && options.lanes_per_device < kinds.back().size()) {
      kinds.back().resize(options.lanes_per_device);
    }
    most_lanes = std::max(most_lanes, kinds.back().size());
  }
  for (size_t index = 0; index < most_lanes; ++index) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      if (index >= kinds[d].size()) continue;
      const LaneKind kind = kinds[d][index];
      Lane& lane = lanes_.emplace_back(*devices_[d], static_cast<int>(index), kind);
      if (kind != LaneKind::kLent) workers_.emplace_back([this, &lane] { Work(lane); });
    }
  }
  // Those for batches last, of those for anything only where there are no others.
  if (!small_jobs_on_callers_thread_) return;
  for (const LaneKind kind : {LaneKind::kLent, LaneKind::kSmall, LaneKind::kAny}) {
    if (kind == LaneKind::kAny && !callers_lanes_.empty()) break;
    for (Lane& lane : lanes_) {
      if (lane.kind == kind) callers_lanes_.push_back(&lane);
    }
  }
}

Engine::~Engine() { Drain(); }

void Engine::Drain() {
  queue_.Close();
  for (std::thread& worker : workers_) {
    if (worker.joinable()) worker.join();
  }
}

absl::StatusOr<HostBuffer> Engine::AllocateHost(size_t size_bytes, const HostBuffer& beside) {
  return host_pool_->Allocate(size_bytes, beside);
}

void Engine::Submit(std::unique_ptr<Job> job) {
  assert(std::all_of(job->products.begin(), job->products.end(), [&job](const JobProduct& product) {
    return product.result == nullptr || job->device == product.result->device();
  }));
  job->enqueued = clock_.Now();
  job->cost = CostOf(*job);
  if (job->cost.problems == 0) {  // nothing to compute
    Finish(std::move(job), absl::OkStatus());
    return;
  }
  std::unique_lock<std::mutex> turn;
  if (Lane* lane = TakeFreeLane(*job, &turn)) {
    return RunHere(*lane, std::move(turn), std::move(job));
  }
  if (absl::Status status = queue_.Push(job); !status.ok()) {
    Finish(std::move(job), std::move(status));
  }
}

Engine::Lane* Engine::TakeFreeLane(const Job& job, std::unique_lock<std::mutex>* turn) {
  if (callers_lanes_.empty() || !queue_.MayPass(job)) return nullptr;
  const bool lends = lending_.Allows(lent_in_use_, job.enqueued);
  for (Lane* lane : callers_lanes_) {
    if (lane->device.lost() || (lane->kind == LaneKind::kLent && !lends)) continue;
    const DeviceDescription& device = lane->device.description();
    if (job.device && *job.device != device.index) continue;
    *turn = std::unique_lock(lane->running, std::try_to_lock);
    if (!turn->owns_lock()) continue;
    if (ComputeSeconds(job, device) <= kSecondsOnCallersThread) return lane;
    turn->unlock();
    return nullptr;  // the other devices are of the same kind
  }
  return nullptr;
}

void Engine::RunHere(Lane& lane, std::unique_lock<std::mutex> turn, std::unique_ptr<Job> job) {
  Batch batch;
  AddIfWanted(std::move(job), lane.device, &batch);
  if (batch.jobs.empty()) return;
  batch.jobs.front()->batch_problems = batch.problems;
  RunInLane(lane, std::move(turn), batch);
  FinishBatch(lane.device, batch);
}

absl::StatusOr<std::unique_ptr<DeviceMatrix>> Engine::AllocateMatrix(int device,
                                                                     const MatrixSpec& spec) {
  Device& there = *devices_[static_cast<size_t>(device)];
  auto matrix = there.AllocateMatrix(spec);
  CheckLost(there);
  return matrix;
}

absl::Status Engine::WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next) {
  Device& there = *devices_[static_cast<size_t>(matrix.device())];
  absl::Status status = there.WriteRows(matrix, rows, next);
  CheckLost(there);
  return status;
}

absl::Status Engine::ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to) {
  Device& there = *devices_[static_cast<size_t>(matrix.device())];
  absl::Status status = there.ReadRows(matrix, rows, to);
  CheckLost(there);
  return status;
}

void Engine::CheckLost(const Device& device) {
  if (!device.lost()) return;
  const int index = device.description().index;
  std::call_once(loss_reported_[static_cast<size_t>(index)],
                 [&] { observer_.OnDeviceLost(device.description()); });
  for (std::unique_ptr<Job>& job : queue_.Lose(index)) {
    job->queue = clock_.Now() - job->enqueued;
    Drop(std::move(job),
         ErrorWithReason(Reason::kDeviceLost, "the device that holds its matrices is lost"));
  }
  queue_.WakeAll();  // its idle lanes leave too, before they are given a job
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
double Engine::queued_flops() const { return queue_.flops(); }
uint64_t Engine::host_memory_used_bytes() const { return host_pool_->used_bytes(); }
uint64_t Engine::host_memory_reserved_bytes() const { return host_pool_->reserved_bytes(); }
uint64_t Engine::host_memory_budget_bytes() const { return host_pool_->budget_bytes(); }

MemoryUse Engine::working_memory() const {
  MemoryUse sum;
  for (const auto& device : devices_) {
    const MemoryUse memory = device->working_memory();
    sum.used_bytes += memory.used_bytes;
    sum.limit_bytes += memory.limit_bytes;
  }
  return sum;
}

void Engine::Cancel(CancelToken& cancel) {
  cancel.Cancel();
  if (std::unique_ptr<Job> job = queue_.Remove(&cancel)) {
    const absl::Time now = clock_.Now();
    job->queue = now - job->enqueued;
    absl::Status status = CheckStillWanted(*job, now);
    Drop(std::move(job), std::move(status));
  }
}

absl::Status Engine::CheckStillWanted(const Job& job, absl::Time now) {
  // The deadline first: gRPC cancels a call when its deadline passes.
  if (now >= job.deadline) {
    return ErrorWithReason(Reason::kDeadlinePassed, "the deadline passed in the queue");
  }
  if (job.cancel != nullptr && job.cancel->cancelled()) {
    return ErrorWithReason(Reason::kCallerGone, "the caller has gone");
  }
  return absl::OkStatus();
}

void Engine::Drop(std::unique_ptr<Job> job, absl::Status status) {
  observer_.OnDropped(*job, status);
  Finish(std::move(job), std::move(status));
}

void Engine::AddIfWanted(std::unique_ptr<Job> job, const Device& device, Batch* batch) {
  const absl::Time now = clock_.Now();
  job->queue = now - job->enqueued;
  absl::Status status = CheckStillWanted(*job, now);
  if (status.ok() && device.lost()) {
    status = ErrorWithReason(Reason::kDeviceLost, "no device is left that works");
  }
  if (!status.ok()) return Drop(std::move(job), std::move(status));
  batch->problems += static_cast<uint32_t>(job->cost.problems);
  batch->jobs.push_back(std::move(job));
}

void Engine::RunInLane(Lane& lane, std::unique_lock<std::mutex> /*turn*/, Batch& batch) {
  const int lent = lane.kind == LaneKind::kLent ? 1 : 0;
  lent_in_use_ += lent;
  running_problems_ += batch.problems;
  batch.device = lane.device.description().index;
  lane.device.Run(lane.index, batch);
  running_problems_ -= batch.problems;
  lent_in_use_ -= lent;
}

void Engine::FinishBatch(const Device& device, Batch& batch) {
  CheckLost(device);
  observer_.OnBatch(batch);
  batch.jobs.back()->last_of_batch = true;
  for (std::unique_ptr<Job>& job : batch.jobs) Finish(std::move(job), absl::OkStatus());
}

void Engine::Work(Lane& lane) {
  Device& device = lane.device;
  // A lost device's workers leave the queue to the others; those of the last one fail what comes.
  const auto leaves = [&] { return device.lost() && healthy(); };
  while (true) {
    std::vector<std::unique_ptr<Job>> jobs =
        queue_.PopBatch(lane.kind, device.description().index, leaves);
    if (jobs.empty()) return;

    std::unique_lock turn(lane.running);
    Batch batch;
    for (std::unique_ptr<Job>& job : jobs) {
      job->last_of_batch = jobs.size() == 1;
      AddIfWanted(std::move(job), device, &batch);
    }
    if (batch.jobs.empty()) continue;
    for (const std::unique_ptr<Job>& job : batch.jobs) job->batch_problems = batch.problems;
    RunInLane(lane, std::move(turn), batch);
    FinishBatch(device, batch);
  }
}

}  // namespace gemm
