// The engine: a bounded queue in front of the lanes of the devices.

#ifndef GEMMD_SERVER_ENGINE_ENGINE_H_
#define GEMMD_SERVER_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/clock.h"
#include "server/engine/device.h"
#include "server/engine/job.h"
#include "server/engine/job_queue.h"
#include "server/engine/lending.h"
#include "server/memory/host_pool.h"

namespace gemm {

// Told of what the engine does; called from worker threads, must not block. Implemented by
// telemetry, which the engine does not know.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnBatch(const Batch& batch) = 0;                            // a device has run it
  virtual void OnDropped(const Job& job, const absl::Status& status) = 0;  // before the device
  virtual void OnDeviceLost(const DeviceDescription& device) = 0;
};

struct EngineOptions {
  JobQueue::Limits queue;
  // Page-locked host memory for requests and replies. More lets more calls be in flight.
  uint64_t host_memory_budget_bytes = uint64_t{2} << 30;
  // The first lanes of each device that work, for measurements; 0: all. On a GPU the first two take
  // small jobs alone.
  size_t lanes_per_device = 0;
  // Submit runs a small job itself when none waits and a lane that is lent or for small jobs alone
  // is free, or, on a device that has neither, any: handing it to a lane's thread takes longer than
  // the job. The caller's thread must be one that may be held up for as long. (When those lanes are
  // taken, or too many of them have been, jobs wait, and what waits shares a batch.)
  bool small_jobs_on_callers_thread = false;
};

// Thread-safe.
class Engine {
 public:
  // At least one device; all of one kind, in the order of their index. `clock` and `observer` must
  // outlive the engine.
  Engine(const EngineOptions& options, std::vector<std::unique_ptr<Device>> devices,
         const Clock& clock, EngineObserver& observer);
  ~Engine();  // drains, then stops

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Host memory for a job's input and output. Errors as HostPool::Allocate.
  absl::StatusOr<HostBuffer> AllocateHost(size_t size_bytes,
                                          const HostBuffer& beside = HostBuffer());

  // Takes the job; its done runs exactly once, perhaps before this returns: with UNAVAILABLE
  // (reason QUEUE_FULL) when the queue is full.
  void Submit(std::unique_ptr<Job> job);

  // The caller of the job with this token has gone: a job that still waits is finished at once,
  // with CANCELLED or, if that is why, DEADLINE_EXCEEDED, and gives its memory back; one on a
  // device runs on.
  void Cancel(CancelToken& cancel);

  // Matrices that stay on a device, as Device has them.
  absl::StatusOr<std::unique_ptr<DeviceMatrix>> AllocateMatrix(int device, const MatrixSpec& spec);
  absl::Status WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next);
  absl::Status ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to);

  // `problem` has passed Validate.
  KernelExplanation Explain(const Problem& problem) const;

  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  // False when no device is left that can work.
  bool healthy() const;

  uint64_t queued_problems() const;
  uint64_t queued_bytes() const;
  double queued_flops() const;
  uint64_t running_problems() const { return running_problems_; }  // that devices are at work on
  uint64_t host_memory_used_bytes() const;
  uint64_t host_memory_reserved_bytes() const;  // used and kept for reuse
  uint64_t host_memory_budget_bytes() const;
  MemoryUse working_memory() const;  // of all devices

  // Finishes what is queued, refuses what comes after, joins the workers. Idempotent.
  void Drain();

 private:
  struct Lane {
    Lane(Device& of, int number, LaneKind takes) : device(of), index(number), kind(takes) {}

    Device& device;
    const int index;
    const LaneKind kind;
    std::mutex running;  // whose turn it is to run a batch in the lane
  };

  void Work(Lane& lane);
  // A free lane for the job, with its turn; null if the job is better off in line.
  Lane* TakeFreeLane(const Job& job, std::unique_lock<std::mutex>* turn);
  void RunHere(Lane& lane, std::unique_lock<std::mutex> turn, std::unique_ptr<Job> job);
  // Drops a job that must not cost the device any time; else adds it to the batch.
  void AddIfWanted(std::unique_ptr<Job> job, const Device& device, Batch* batch);
  void RunInLane(Lane& lane, std::unique_lock<std::mutex> turn, Batch& batch);
  // What comes after a lane's turn.
  void FinishBatch(const Device& device, Batch& batch);
  // After anything that may have lost the device.
  void CheckLost(const Device& device);
  // OK, or why the job must not cost the device any time.
  static absl::Status CheckStillWanted(const Job& job, absl::Time now);
  void Drop(std::unique_ptr<Job> job, absl::Status status);

  const Clock& clock_;
  EngineObserver& observer_;
  const bool small_jobs_on_callers_thread_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::shared_ptr<HostPool> host_pool_;
  JobQueue queue_;
  Lending lending_;
  std::atomic<int> lent_in_use_{0};  // lanes
  std::atomic<uint64_t> running_problems_{0};
  std::deque<std::once_flag> loss_reported_;  // one for each device
  std::deque<Lane> lanes_;                    // the first of each device, then the second of each
  std::vector<Lane*> callers_lanes_;  // in whose order a small job looks for one on its thread
  std::vector<std::thread> workers_;  // one for each lane that is not lent
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_ENGINE_H_
