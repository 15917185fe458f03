// Time that passes when a test says so.

#ifndef GEMMD_TESTS_SERVER_ENGINE_FAKE_CLOCK_H_
#define GEMMD_TESTS_SERVER_ENGINE_FAKE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "server/engine/clock.h"

namespace gemm {

class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(microseconds_); }
  void Advance(absl::Duration duration) { microseconds_ += absl::ToInt64Microseconds(duration); }

 private:
  std::atomic<int64_t> microseconds_{1'000'000};
};

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_ENGINE_FAKE_CLOCK_H_
