#include "server/rpc/admission.h"

#include <algorithm>
#include <utility>

namespace gemm {

Admission::Verdict Admission::Request(uint64_t bytes, Ticket* ticket,
                                      absl::AnyInvocable<void() &&> admitted) {
  std::lock_guard lock(mutex_);
  if (line_.empty() && used_bytes_ + bytes <= budget_bytes_) {
    used_bytes_ += bytes;
    return Verdict::kAdmitted;
  }
  if (line_.size() >= static_cast<size_t>(line_limit_)) return Verdict::kRefused;
  *ticket = next_ticket_++;
  line_.push_back({*ticket, bytes, std::move(admitted)});
  return Verdict::kWaiting;
}

bool Admission::Cancel(Ticket ticket) {
  // The line may move up: whoever stood behind a large request may fit now.
  std::list<Waiter> removed;
  {
    std::lock_guard lock(mutex_);
    const auto waiter = std::find_if(line_.begin(), line_.end(),
                                     [ticket](const Waiter& w) { return w.ticket == ticket; });
    if (waiter == line_.end()) return false;
    removed.splice(removed.end(), line_, waiter);
  }
  Release(0);
  return true;
}

void Admission::Release(uint64_t bytes) {
  std::list<Waiter> admitted;
  {
    std::lock_guard lock(mutex_);
    used_bytes_ -= bytes;
    while (!line_.empty() && used_bytes_ + line_.front().bytes <= budget_bytes_) {
      used_bytes_ += line_.front().bytes;
      admitted.splice(admitted.end(), line_, line_.begin());
    }
  }
  for (Waiter& waiter : admitted) std::move(waiter.admitted)();
}

uint64_t Admission::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace gemm
