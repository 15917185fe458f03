// What a load point has to keep.

#ifndef GEMMD_CLIENT_CLI_PERF_SLO_H_
#define GEMMD_CLIENT_CLI_PERF_SLO_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/perf/tally.h"

namespace gemm::cli {

struct SloBound {
  std::string text;                  // as it was given
  std::optional<double> percentile;  // of latencies; 100 is the maximum
  absl::Duration latency;            // with a percentile
  double errors = 0;                 // without one: failed and unsent calls,
  bool errors_are_percent = false;   // of a hundred
};

// "p50=1ms,p99.9=20ms,max=1s,errors=0" or "errors=0.5%".
absl::StatusOr<std::vector<SloBound>> ParseSlo(const std::string& text);

// What was not kept, in words: "p99 is 7.250 ms, over p99=5ms". Without a single answer no bound on
// latency is.
std::vector<std::string> Broken(const std::vector<SloBound>& bounds, const Tally& tally);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_SLO_H_
