// When the calls of an open loop are due.

#ifndef GEMMD_CLIENT_CLI_PERF_ARRIVALS_H_
#define GEMMD_CLIENT_CLI_PERF_ARRIVALS_H_

#include <chrono>
#include <cmath>

#include "client/cli/perf/random.h"

namespace gemm::cli {

// A Poisson process: callers that know nothing of each other. Several of them side by side are one
// of the sum of their rates.
class PoissonArrivals {
 public:
  PoissonArrivals(double per_second, Random random)
      : mean_gap_seconds_(1.0 / per_second), random_(random) {}

  // Of the next arrival, since the beginning.
  std::chrono::nanoseconds Next() {
    seconds_ -= std::log1p(-random_.Uniform()) * mean_gap_seconds_;
    return std::chrono::nanoseconds(std::llround(seconds_ * 1e9));
  }

 private:
  const double mean_gap_seconds_;
  Random random_;
  double seconds_ = 0.0;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_ARRIVALS_H_
