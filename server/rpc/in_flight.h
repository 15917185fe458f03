// How many products are under way: what a drain waits for.

#ifndef GEMMD_SERVER_RPC_IN_FLIGHT_H_
#define GEMMD_SERVER_RPC_IN_FLIGHT_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace gemm {

// Thread-safe.
class InFlight {
 public:
  void Add() {
    std::lock_guard lock(mutex_);
    ++count_;
  }

  void Remove() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

  // False when some are left at the deadline.
  bool WaitForNone(absl::Time deadline) {
    std::unique_lock lock(mutex_);
    return none_.wait_until(lock, absl::ToChronoTime(deadline), [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;  // protected by mutex_
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_IN_FLIGHT_H_
