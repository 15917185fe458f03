#include "server/engine/lending.h"

namespace gemm {
namespace {

constexpr int kUnits = 1024;
constexpr int kJobs = 32;  // that the average is over, roughly

}  // namespace

bool Lending::Allows(int in_use, absl::Time now) {
  const int64_t now_ns = absl::ToUnixNanos(now);
  if (now_ns < pause_end_ns_.load(std::memory_order_relaxed)) return false;
  int average = average_.load(std::memory_order_relaxed);
  average += (in_use * kUnits - average) / kJobs;
  const bool crowded = average > most_ * kUnits;
  average_.store(crowded ? 0 : average, std::memory_order_relaxed);
  if (crowded) {
    pause_end_ns_.store(now_ns + absl::ToInt64Nanoseconds(kPause), std::memory_order_relaxed);
  }
  return !crowded;
}

}  // namespace gemm
