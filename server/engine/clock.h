// Time as the engine sees it, so that tests can hold it still.

#ifndef GEMMD_SERVER_ENGINE_CLOCK_H_
#define GEMMD_SERVER_ENGINE_CLOCK_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemm {

// The time of day when it was first asked for, and what has passed since. Who sets the machine's
// clock must not end matrices and calls, so all that waits or is timed goes by this one.
inline absl::Time SteadyNow() {
  using std::chrono::steady_clock;
  static const absl::Time time_of_day = absl::Now();
  static const steady_clock::time_point start = steady_clock::now();
  return time_of_day + absl::FromChrono(steady_clock::now() - start);
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override { return SteadyNow(); }
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CLOCK_H_
