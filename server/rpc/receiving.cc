#include "server/rpc/receiving.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/clock.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr std::chrono::milliseconds kTick{500};

}  // namespace

Receiving::Receiving(absl::Duration timeout) : timeout_(timeout), watcher_([this] { Watch(); }) {}

Receiving::~Receiving() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  watcher_.join();
}

absl::Time Receiving::EndOf(uint64_t bytes) const {
  return SteadyNow() + timeout_ +
         absl::Seconds(static_cast<double>(bytes) / kSlowestBytesPerSecond);
}

Receiving::Ticket Receiving::Add(uint64_t bytes, GiveUp give_up) {
  const std::lock_guard lock(mutex_);
  messages_.emplace(next_ticket_, Entry{bytes, EndOf(bytes), false, std::move(give_up)});
  return next_ticket_++;
}

void Receiving::Arm(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (const auto message = messages_.find(ticket); message != messages_.end()) {
    message->second.armed = true;
  }
}

bool Receiving::Remove(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return messages_.erase(ticket) > 0;
}

void Receiving::Drain(absl::Duration timeout) {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  timeout_ = std::min(timeout_, timeout);
  for (auto& [ticket, message] : messages_) {
    message.end = std::min(message.end, EndOf(message.bytes));
  }
}

void Receiving::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kTick, [this] { return stopping_; })) {
    const absl::Time now = SteadyNow();
    std::vector<Entry> late;
    for (auto message = messages_.begin(); message != messages_.end();) {
      const auto entry = message++;
      if (!entry->second.armed || now < entry->second.end) continue;
      late.push_back(std::move(entry->second));
      messages_.erase(entry);
    }
    const absl::Status status =
        draining_ ? ErrorWithReason(Reason::kDraining,
                                    "the server is shutting down, and the message did not come")
                  : ErrorWithReason(Reason::kReceiveTimeout,
                                    absl::StrCat("the whole message did not arrive within ",
                                                 absl::FormatDuration(timeout_),
                                                 " and the time for its bytes at 10 MB/s "
                                                 "(--receive-timeout)"));
    lock.unlock();
    for (Entry& message : late) std::move(message.give_up)(status);
    lock.lock();
  }
}

}  // namespace gemm
