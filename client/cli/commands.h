// What each of gemmctl's commands does once its arguments are parsed.

#ifndef GEMMD_CLIENT_CLI_COMMANDS_H_
#define GEMMD_CLIENT_CLI_COMMANDS_H_

#include <string>

#include "client/cli/failure.h"
#include "gemmd/client.h"

namespace gemm::cli {

struct MultiplyCommand {
  std::string a_path;
  std::string b_path;
  std::string c_path;  // empty: none
  std::string d_path;
  double alpha = 1.0;
  double beta = 0.0;
  bool transpose_a = false;
  bool transpose_b = false;
  Precision precision = Precision::kStrict;
  bool progress = false;
};

// Results go to stdout, for people or as one line of JSON; what went wrong is told as failure.h has
// it. Each connects first.
ExitCode RunMultiply(const ClientOptions& options, const MultiplyCommand& command, bool json);
ExitCode RunExplain(const ClientOptions& options, const ExplainArgs& args, bool json);
ExitCode RunInfo(const ClientOptions& options, bool json);

// `service` is "" for the whole server.
ExitCode RunHealth(const ClientOptions& options, const std::string& service, bool json);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_COMMANDS_H_
