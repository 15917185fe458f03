// How many products are under way: what a drain waits for.

#ifndef GEMMD_SERVER_RPC_IN_FLIGHT_H_
#define GEMMD_SERVER_RPC_IN_FLIGHT_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"
#include "server/engine/clock.h"

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

  // False when some are left at the deadline, a time of SteadyNow.
  bool WaitForNone(absl::Time deadline) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, absl::ToChronoNanoseconds(deadline - SteadyNow()),
                          [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;  // protected by mutex_
};

// A call's place among them. First counted, then asked, so that a drain either sees the call or has
// it refused.
class InFlightPlace {
 public:
  InFlightPlace(InFlight& in_flight, const std::atomic<bool>& refusing) : in_flight_(in_flight) {
    in_flight_.Add();
    refused_ = refusing;
    if (refused_) in_flight_.Remove();
  }
  ~InFlightPlace() {
    if (!refused_) in_flight_.Remove();
  }
  InFlightPlace(const InFlightPlace&) = delete;
  InFlightPlace& operator=(const InFlightPlace&) = delete;

  bool refused() const { return refused_; }

 private:
  InFlight& in_flight_;
  bool refused_ = false;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_IN_FLIGHT_H_
