#include "server/engine/job_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/reason.h"

namespace gemm {

absl::Status JobQueue::Push(std::unique_ptr<Job>& job) {
  const uint64_t held_bytes = HeldBytes(*job);
  {
    std::lock_guard lock(mutex_);
    if (closed_) return ErrorWithReason(Reason::kDraining, "the server is shutting down");
    if (jobs_.size() >= limits_.problems) {
      return ErrorWithReason(Reason::kQueueFull, absl::StrCat("the queue is full: ", jobs_.size(),
                                                              " problems (--queue-problems)"));
    }
    if (!jobs_.empty() && bytes_ + held_bytes > limits_.bytes) {
      return ErrorWithReason(Reason::kQueueFull,
                             absl::StrCat("the queue is full: ", bytes_, " of ", limits_.bytes,
                                          " bytes (--queue-bytes)"));
    }
    bytes_ += held_bytes;
    jobs_.push_back(std::move(job));
  }
  waiting_.notify_one();
  return absl::OkStatus();
}

std::unique_ptr<Job> JobQueue::Pop() {
  std::unique_lock lock(mutex_);
  waiting_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
  if (jobs_.empty()) return nullptr;
  std::unique_ptr<Job> job = std::move(jobs_.front());
  jobs_.pop_front();
  bytes_ -= HeldBytes(*job);
  return job;
}

void JobQueue::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  waiting_.notify_all();
}

uint64_t JobQueue::problems() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

uint64_t JobQueue::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace gemm
