#include "server/engine/job_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/reason.h"

namespace gemm {
namespace {

bool MayRun(const Job& job, int device) { return !job.device || *job.device == device; }

}  // namespace

JobQueue::Line& JobQueue::LineOf(const Job& job) { return IsSmall(job) ? small_ : large_; }

JobQueue::Line::iterator JobQueue::FirstFor(Line& line, int device) {
  return std::find_if(line.begin(), line.end(),
                      [device](const auto& entry) { return MayRun(*entry.second, device); });
}

absl::Status JobQueue::CheckRoom(const JobCost& cost) const {
  const auto full = [](auto waiting, auto limit, const char* flag) {
    return ErrorWithReason(Reason::kQueueFull, absl::StrCat("the queue is full: ", waiting, " of ",
                                                            limit, " (", flag, ")"));
  };
  if (small_.empty() && large_.empty()) return absl::OkStatus();
  if (waiting_.problems + cost.problems > limits_.problems) {
    return full(waiting_.problems, limits_.problems, "problems, --queue-problems");
  }
  if (waiting_.bytes + cost.bytes > limits_.bytes) {
    return full(waiting_.bytes, limits_.bytes, "bytes, --queue-bytes");
  }
  if (waiting_.flops + cost.flops > limits_.flops) {
    return full(waiting_.flops, limits_.flops, "floating-point operations, --queue-flops");
  }
  return absl::OkStatus();
}

absl::Status JobQueue::Push(std::unique_ptr<Job>& job) {
  bool wake_small_lane = false;
  const bool bound = job->device.has_value();
  {
    std::lock_guard lock(mutex_);
    if (closed_) return ErrorWithReason(Reason::kDraining, "the server is shutting down");
    if (bound && lost_.contains(*job->device)) {
      return ErrorWithReason(Reason::kDeviceLost, "the device that holds its matrices is lost");
    }
    if (absl::Status room = CheckRoom(job->cost); !room.ok()) return room;
    waiting_.problems += job->cost.problems;
    waiting_.bytes += job->cost.bytes;
    waiting_.flops += job->cost.flops;
    const auto last_end = last_end_.find(job->caller);
    const double turn = last_end == last_end_.end() ? now_ : std::max(now_, last_end->second);
    last_end_[job->caller] = turn + job->cost.seconds;
    Line& line = LineOf(*job);
    line.emplace(turn, std::move(job));
    wake_small_lane = &line == &small_ && small_lanes_waiting_ > 0;
  }
  if (bound) {  // the one that waits longest may be another device's
    small_lane_wanted_.notify_all();
    any_lane_wanted_.notify_all();
  } else {
    (wake_small_lane ? small_lane_wanted_ : any_lane_wanted_).notify_one();
  }
  return absl::OkStatus();
}

bool JobQueue::MayPass(const Job& job) const {
  if (!IsSmall(job)) return false;
  std::lock_guard lock(mutex_);
  return !closed_ && small_.empty();
}

std::unique_ptr<Job> JobQueue::Take(Line& line, Line::iterator position) {
  std::unique_ptr<Job> job = std::move(position->second);
  line.erase(position);
  waiting_.problems -= job->cost.problems;
  waiting_.bytes -= job->cost.bytes;
  waiting_.flops -= job->cost.flops;
  if (small_.empty() && large_.empty()) waiting_.flops = 0;  // forget what rounding has left
  return job;
}

std::vector<std::unique_ptr<Job>> JobQueue::PopBatch(LaneKind lane, int device,
                                                     absl::FunctionRef<bool()> leaves) {
  std::unique_lock lock(mutex_);
  const bool any = lane == LaneKind::kAny;
  if (any && small_.empty() && large_.empty()) last_end_.clear();  // no turns to share
  auto small = small_.end();
  auto large = large_.end();
  const auto find = [&] {
    small = FirstFor(small_, device);
    if (any) large = FirstFor(large_, device);
    return small != small_.end() || large != large_.end();
  };
  small_lanes_waiting_ += !any;
  (any ? any_lane_wanted_ : small_lane_wanted_).wait(lock, [&] {
    return find() || closed_ || leaves();
  });
  small_lanes_waiting_ -= !any;
  if (leaves()) {  // the job that woke it is for another lane
    small_lane_wanted_.notify_all();
    any_lane_wanted_.notify_all();
    return {};
  }

  std::vector<std::unique_ptr<Job>> jobs;
  if (large != large_.end() && (small == small_.end() || large->first <= small->first)) {
    now_ = std::max(now_, large->first);
    jobs.push_back(Take(large_, large));
  } else {
    double seconds = 0;
    while (small != small_.end()) {
      const auto next = small++;
      if (!MayRun(*next->second, device)) continue;
      seconds += next->second->cost.seconds;
      if (!jobs.empty() && seconds > limits_.batch_seconds) break;
      now_ = std::max(now_, next->first);
      jobs.push_back(Take(small_, next));
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
    MoveUp(job->caller, turn, turn + job->cost.seconds - std::max(now_, turn));
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

std::vector<std::unique_ptr<Job>> JobQueue::Lose(int device) {
  std::lock_guard lock(mutex_);
  lost_.insert(device);
  std::vector<std::unique_ptr<Job>> bound;
  for (Line* line : {&small_, &large_}) {
    for (auto position = line->begin(); position != line->end();) {
      const auto entry = position++;
      if (entry->second->device == device) bound.push_back(Take(*line, entry));
    }
  }
  return bound;
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
  return waiting_.problems;
}

uint64_t JobQueue::bytes() const {
  std::lock_guard lock(mutex_);
  return waiting_.bytes;
}

double JobQueue::flops() const {
  std::lock_guard lock(mutex_);
  return waiting_.flops;
}

}  // namespace gemm
