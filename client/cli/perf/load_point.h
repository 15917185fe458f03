// How hard a server is pressed.

#ifndef GEMMD_CLIENT_CLI_PERF_LOAD_POINT_H_
#define GEMMD_CLIENT_CLI_PERF_LOAD_POINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gemm::cli {

// Either a closed loop, of callers that wait for an answer before they call again, or an open one,
// whose calls are due at times of their own.
struct LoadPoint {
  int callers = 0;  // of a closed loop
  double rate = 0;  // calls a second, of an open one

  bool open() const { return rate > 0; }
};

// "1,4,16"
absl::StatusOr<std::vector<LoadPoint>> ParseConcurrency(const std::string& text);

// "1000,2000"
absl::StatusOr<std::vector<LoadPoint>> ParseRates(const std::string& text);

// "16 callers" or "2000 calls/s".
std::string Describe(const LoadPoint& point);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_LOAD_POINT_H_
