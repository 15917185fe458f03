// The bounded line of jobs in front of the devices.

#ifndef GEMMD_SERVER_ENGINE_JOB_QUEUE_H_
#define GEMMD_SERVER_ENGINE_JOB_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "server/engine/job.h"

namespace gemm {

// First in, first out. Thread-safe, any number of producers and consumers.
class JobQueue {
 public:
  struct Limits {
    uint64_t problems = 4096;
    uint64_t bytes = uint64_t{1} << 30;  // host memory that waiting jobs hold
  };

  explicit JobQueue(const Limits& limits) : limits_(limits) {}

  // Takes the job when it returns OK and leaves it alone otherwise: UNAVAILABLE, QUEUE_FULL or
  // DRAINING. A job larger than the byte limit is taken when nothing else waits.
  absl::Status Push(std::unique_ptr<Job>& job);

  // Blocks until a job is there; null once the queue is closed and empty.
  std::unique_ptr<Job> Pop();

  // Refuses what comes after; what waits is still handed out.
  void Close();

  uint64_t problems() const;
  uint64_t bytes() const;

 private:
  const Limits limits_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable waiting_;
  std::deque<std::unique_ptr<Job>> jobs_;
  uint64_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_JOB_QUEUE_H_
