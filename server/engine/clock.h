// Time as the engine sees it, so that tests can hold it still.

#ifndef GEMMD_SERVER_ENGINE_CLOCK_H_
#define GEMMD_SERVER_ENGINE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemm {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CLOCK_H_
