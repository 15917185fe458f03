// What each of gemmctl's commands does once its arguments are parsed.

#ifndef GEMMD_CLIENT_CLI_COMMANDS_H_
#define GEMMD_CLIENT_CLI_COMMANDS_H_

#include <string>

#include "absl/time/time.h"
#include "gemmd/client.h"

namespace gemm::cli {

enum ExitCode : int {
  kSuccess = 0,
  kCallFailed = 1,  // the server said no, or is not there, or is not serving
  kBadInput = 2,    // bad usage, unreadable input or an output that cannot be written
};

struct MultiplyCommand {
  std::string a_path;
  std::string b_path;
  std::string c_path;  // empty: none
  std::string d_path;
  double alpha = 1.0;
  double beta = 0.0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool json = false;
};

struct HealthCommand {
  std::string service;
  bool json = false;
};

// Results go to stdout, errors to stderr. Each connects first.
ExitCode RunMultiply(const ClientOptions& options, const MultiplyCommand& command);
ExitCode RunExplain(const ClientOptions& options, const ExplainArgs& args, bool json);
ExitCode RunInfo(const ClientOptions& options, bool json);
ExitCode RunHealth(const ClientOptions& options, const HealthCommand& command);

// "gemmctl: <message>" to stderr.
void PrintError(const std::string& message);

// The same for a call that failed, with the server's reason; returns the exit code.
ExitCode PrintFailure(const absl::Status& status);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_COMMANDS_H_
