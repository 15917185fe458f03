#include "server/rpc/pollers.h"

#include <chrono>
#include <functional>

#include "absl/time/clock.h"

namespace gemm {
namespace {

// A thread that was not needed for as long goes.
constexpr int64_t kSurplusNs = 20'000'000;

// How often somebody looks whether all threads at work are stuck in events.
constexpr std::chrono::milliseconds kLookForStall{100};

// In the past: of now gRPC makes up to 1 ms.
constexpr std::chrono::system_clock::time_point kAtOnce;

// A single thread that finds so many calls waiting, each of another connection than the one before,
// without waiting itself meanwhile, has several callers, although it never sees two of their calls
// at a time.
constexpr int kOthersWaiting = 3;

// Whether the event that this thread handles was there before the thread asked for it.
thread_local bool event_was_waiting = false;

}  // namespace

Pollers::Pollers(grpc::CompletionQueue& queue, int most_threads, int spare_threads)
    : queue_(queue), most_threads_(most_threads) {
  const int threads = most_threads + spare_threads;
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Pollers::~Pollers() {
  for (std::thread& thread : threads_) thread.join();
}

void Pollers::Work() {
  while (WaitUntilWanted()) {
    do {
      void* tag = nullptr;
      bool ok = false;
      auto next = grpc::CompletionQueue::TIMEOUT;
      // The first may return without a look, after operations that ended during an event.
      for (int i = 0; i < 2 && at_work_ == 1 && next == grpc::CompletionQueue::TIMEOUT; ++i) {
        next = queue_.AsyncNext(&tag, &ok, kAtOnce);
      }
      event_was_waiting = next == grpc::CompletionQueue::GOT_EVENT;
      if (next == grpc::CompletionQueue::TIMEOUT) {
        next = queue_.Next(&tag, &ok) ? grpc::CompletionQueue::GOT_EVENT
                                      : grpc::CompletionQueue::SHUTDOWN;
      }
      if (next == grpc::CompletionQueue::SHUTDOWN) {
        const std::lock_guard lock(mutex_);
        over_ = true;
        wanted_.notify_all();
        deputy_wanted_.notify_all();
        return;
      }
      ++in_events_;
      static_cast<Event*>(tag)->Happen(ok);
      --in_events_;
      ++events_;
    } while (!Leave());
  }
}

void Pollers::CallCame(const std::string& peer) {
  const int calls = ++calls_;
  const int at_work = at_work_;
  const bool busy = at_work > 1 ? calls >= at_work : calls > 1 || FindsOthersWaiting(peer);
  if (!busy) return;
  needed_at_ns_ = absl::GetCurrentTimeNanos();
  Join();
}

bool Pollers::FindsOthersWaiting(const std::string& peer) {
  const size_t connection = std::hash<std::string>()(peer);
  const bool other = last_connection_.exchange(connection) != connection;
  if (!event_was_waiting) {
    others_waiting_ = 0;
  } else if (other) {
    ++others_waiting_;
  }
  return others_waiting_ > kOthersWaiting;
}

void Pollers::Join() {
  if (at_work_ >= most_threads_) return;
  const std::lock_guard lock(mutex_);
  const int free = parked_ + (deputy_ ? 1 : 0) - to_join_;
  if (free <= 0) return;
  ++to_join_;
  ++at_work_;
  if (parked_ >= to_join_) {
    wanted_.notify_one();
  } else {
    deputy_wanted_.notify_one();
  }
}

bool Pollers::Leave() {
  if (in_events_ >= at_work_ - 1) return false;  // nobody else would wait for events
  const int64_t now = absl::GetCurrentTimeNanos();
  int64_t needed_at = needed_at_ns_;
  if (now - needed_at < kSurplusNs) return false;
  if (!needed_at_ns_.compare_exchange_strong(needed_at, now)) return false;  // one at a time
  --at_work_;
  if (in_events_ < at_work_) return true;
  ++at_work_;  // meanwhile the others have got events, perhaps to be stuck there
  return false;
}

bool Pollers::WaitUntilWanted() {
  std::unique_lock lock(mutex_);
  const auto wanted = [this] { return to_join_ > 0 || over_; };
  while (!wanted()) {
    if (deputy_) {
      ++parked_;
      wanted_.wait(lock, [&] { return wanted() || !deputy_; });
      --parked_;
      continue;
    }
    deputy_ = true;
    if (!deputy_wanted_.wait_for(lock, kLookForStall, wanted)) LookForStall();
    deputy_ = false;
    if (wanted()) wanted_.notify_one();  // for the next deputy
  }
  if (over_) return false;
  --to_join_;
  return true;
}

void Pollers::LookForStall() {
  const uint64_t events = events_;
  if (in_events_ >= at_work_ && events == events_at_last_look_) {
    ++to_join_;
    ++at_work_;
  }
  events_at_last_look_ = events;
}

}  // namespace gemm
