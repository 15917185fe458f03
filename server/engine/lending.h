// Whether a small job is better off by itself, in a lane of its own, or in a batch.
//
// By itself it waits for nobody and wakes nobody. But many single jobs at once hold each other up,
// in the driver and on the bus: an H200 ends 143 thousand products of 64 cubed a second that way
// and 31 thousand of 256 cubed, in batches 350 and 98 thousand.

#ifndef GEMMD_SERVER_ENGINE_LENDING_H_
#define GEMMD_SERVER_ENGINE_LENDING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace gemm {

// Thread-safe.
class Lending {
 public:
  explicit Lending(size_t devices) : most_(kMostInUse * static_cast<int>(devices)) {}

  // A small job has come while so many lent lanes are in use: whether it may have one, too. When
  // more than kMostInUse a device were in use on average, none may for kPause.
  bool Allows(int in_use, absl::Time now);

  static constexpr int kMostInUse = 4;
  static constexpr absl::Duration kPause = absl::Milliseconds(10);

 private:
  const int most_;
  // Several threads may write these at a time, and one's value be lost: they are estimates.
  std::atomic<int> average_{0};  // of in_use, of the latest jobs; in units of 1 / kUnits
  std::atomic<int64_t> pause_end_ns_{0};
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_LENDING_H_
