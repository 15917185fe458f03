// The phases of a call on the server, in the order they happen.

#ifndef GEMMD_CLIENT_CLI_PHASES_H_
#define GEMMD_CLIENT_CLI_PHASES_H_

#include <array>

#include "absl/time/time.h"
#include "gemmd/multiply.h"

namespace gemm::cli {

inline constexpr std::array<const char*, 7> kPhaseNames = {"admit",   "receive", "decode",  "queue",
                                                           "copy_in", "compute", "copy_out"};

// In the order of their names.
inline std::array<absl::Duration, kPhaseNames.size()> PhasesOf(const MultiplyReport& report) {
  return {report.admit,   report.receive, report.decode,  report.queue,
          report.copy_in, report.compute, report.copy_out};
}

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PHASES_H_
