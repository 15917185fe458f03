// gemmctl's exit codes, and how it says what went wrong: in words on stderr, and with --json as one
// object on stdout too:
//
//   {"error":{"code":"UNAVAILABLE","reason":"QUEUE_FULL","field":"","message":"...","hint":"..."}}

#ifndef GEMMD_CLIENT_CLI_FAILURE_H_
#define GEMMD_CLIENT_CLI_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "gemmd/client.h"

namespace gemm::cli {

enum ExitCode : int {
  kSuccess = 0,
  kCallFailed = 1,  // the server said no, or is not there, or is not serving
  kBadInput = 2,    // bad usage, unreadable input or an output that cannot be written
  kSloBroken = 3,   // perf: a load point was not as good as it had to be
};

// "gemmctl: <message>" to stderr.
void PrintError(const std::string& message);

// An input or an output; kBadInput.
ExitCode FailInput(const absl::Status& status, bool json);

// A call to the server; kCallFailed, or kBadInput if its name of a matrix cannot be one. Asks a
// server that does not know the call for its version.
ExitCode FailCall(const Client& client, const ClientOptions& options, const absl::Status& status,
                  bool json);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_FAILURE_H_
