#include "server/engine/job_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/reason.h"

namespace gemm {

JobQueue::Line& JobQueue::LineOf(const Job& job) {
  return EstimatedSeconds(job) <= limits_.small_job_seconds ? small_ : large_;
}

absl::Status JobQueue::Push(std::unique_ptr<Job>& job) {
  const uint64_t held_bytes = HeldBytes(*job);
  bool wake_small_lane = false;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return ErrorWithReason(Reason::kDraining, "the server is shutting down");
    const uint64_t waiting = small_.size() + large_.size();
    if (waiting >= limits_.problems) {
      return ErrorWithReason(Reason::kQueueFull, absl::StrCat("the queue is full: ", waiting,
                                                              " problems (--queue-problems)"));
    }
    if (waiting > 0 && bytes_ + held_bytes > limits_.bytes) {
      return ErrorWithReason(Reason::kQueueFull,
                             absl::StrCat("the queue is full: ", bytes_, " of ", limits_.bytes,
                                          " bytes (--queue-bytes)"));
    }
    bytes_ += held_bytes;
    const auto last_end = last_end_.find(job->caller);
    const double turn = last_end == last_end_.end() ? now_ : std::max(now_, last_end->second);
    last_end_[job->caller] = turn + EstimatedSeconds(*job);
    Line& line = LineOf(*job);
    line.emplace(turn, std::move(job));
    wake_small_lane = &line == &small_ && small_lanes_waiting_ > 0;
  }
  (wake_small_lane ? small_lane_wanted_ : any_lane_wanted_).notify_one();
  return absl::OkStatus();
}

std::unique_ptr<Job> JobQueue::Take(Line& line, Line::iterator position) {
  std::unique_ptr<Job> job = std::move(position->second);
  bytes_ -= HeldBytes(*job);
  line.erase(position);
  return job;
}

std::vector<std::unique_ptr<Job>> JobQueue::PopBatch(LaneKind lane,
                                                     absl::FunctionRef<bool()> leaves) {
  std::unique_lock lock(mutex_);
  const bool any = lane == LaneKind::kAny;
  if (any && small_.empty() && large_.empty()) last_end_.clear();  // no turns to share
  small_lanes_waiting_ += !any;
  (any ? any_lane_wanted_ : small_lane_wanted_).wait(lock, [&] {
    return closed_ || !small_.empty() || (any && !large_.empty()) || leaves();
  });
  small_lanes_waiting_ -= !any;
  if (leaves()) {  // the job that woke it is for another lane
    small_lane_wanted_.notify_all();
    any_lane_wanted_.notify_all();
    return {};
  }

  std::vector<std::unique_ptr<Job>> jobs;
  if (any && !large_.empty() &&
      (small_.empty() || large_.begin()->first <= small_.begin()->first)) {
    now_ = std::max(now_, large_.begin()->first);
    jobs.push_back(Take(large_, large_.begin()));
  } else {
    double seconds = 0;
    while (!small_.empty()) {
      seconds += EstimatedSeconds(*small_.begin()->second);
      if (!jobs.empty() && seconds > limits_.batch_seconds) break;
      now_ = std::max(now_, small_.begin()->first);
      jobs.push_back(Take(small_, small_.begin()));
    }
  }
  std::erase_if(last_end_, [this](const auto& entry) { return entry.second <= now_; });
  return jobs;
}

std::unique_ptr<Job> JobQueue::Remove(const CancelToken* cancel) {
  std::lock_guard lock(mutex_);
  for (Line* line : {&small_, &large_}) {
    const auto position = std::find_if(line->begin(), line->end(), [cancel](const auto& entry) {
      return entry.second->cancel.get() == cancel;
    });
    if (position == line->end()) continue;
    const double turn = position->first;
    std::unique_ptr<Job> job = Take(*line, position);
    MoveUp(job->caller, turn, turn + EstimatedSeconds(*job) - std::max(now_, turn));
    return job;
  }
  return nullptr;
}

void JobQueue::MoveUp(const std::string& caller, double after, double seconds) {
  if (seconds <= 0) return;
  const auto last_end = last_end_.find(caller);
  if (last_end != last_end_.end()) last_end->second -= seconds;
  for (Line* line : {&small_, &large_}) {
    for (auto position = line->upper_bound(after); position != line->end();) {
      const auto entry = position++;
      if (entry->second->caller != caller) continue;
      auto node = line->extract(entry);
      node.key() -= seconds;
      line->insert(std::move(node));
    }
  }
}

void JobQueue::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  WakeAll();
}

void JobQueue::WakeAll() {
  std::lock_guard lock(mutex_);  // no lane is between asking and waiting
  small_lane_wanted_.notify_all();
  any_lane_wanted_.notify_all();
}

uint64_t JobQueue::problems() const {
  std::lock_guard lock(mutex_);
  return small_.size() + large_.size();
}

uint64_t JobQueue::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace gemm
