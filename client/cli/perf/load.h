// Presses a server with calls and measures how it answers.

#ifndef GEMMD_CLIENT_CLI_PERF_LOAD_H_
#define GEMMD_CLIENT_CLI_PERF_LOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/perf/load_channel.h"
#include "client/cli/perf/load_point.h"
#include "client/cli/perf/tally.h"
#include "client/cli/perf/workload.h"
#include "gemmd/client.h"

namespace gemm::cli {

struct LoadSettings {
  ClientOptions client;
  int batch = 0;          // products of a MultiplyBatch call; 0 is one product a Multiply call
  int channels = 1;       // connections, among which callers or arrivals are shared out
  int outstanding = 256;  // calls of an open loop that may be under way at once, in all
  uint64_t seed = 1;
};

struct LoadProgress {
  absl::Duration elapsed;
  int64_t calls = 0;   // answered so far
  int64_t errors = 0;  // failed so far
};

// The latency of a call counts from when it was due: in a closed loop that is when its caller had
// the answer before, in an open one its arrival, however late it could be sent. So a server that
// stands still is seen by all who would have called meanwhile.
class Load {
 public:
  // `workload` must outlive this and have a copy for each product of a call. Connects, without
  // waiting.
  static absl::StatusOr<std::unique_ptr<Load>> Create(const LoadSettings& settings,
                                                      const Workload& workload);

  // Begins calls for `duration`, from none under way, and waits for their ends. `stream` makes two
  // runs differ. `go_on` is asked some times a second; once it says false nothing new is begun,
  // what is under way is cancelled, and what has been measured is returned. Not thread-safe.
  Tally Run(const LoadPoint& point, absl::Duration duration, uint64_t stream,
            absl::FunctionRef<bool(const LoadProgress&)> go_on);

  // Whether results that the last run left are right; a few of them.
  absl::Status CheckResults() const;

 private:
  Load(const LoadSettings& settings, const Workload& workload);

  const LoadSettings settings_;
  const Workload& workload_;
  std::vector<std::unique_ptr<LoadChannel>> channels_;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_LOAD_H_
