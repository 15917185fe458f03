// What can be asked of gemmctl, and its help.

#ifndef GEMMD_CLIENT_CLI_ARGUMENTS_H_
#define GEMMD_CLIENT_CLI_ARGUMENTS_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "client/cli/commands.h"
#include "gemmd/client.h"

namespace gemm::cli {

struct Arguments {
  ClientOptions client;
  bool json = false;
  MultiplyCommand multiply;
  PutCommand put;
  GetCommand get;
  std::vector<std::string> remove;  // names
  PerfCommand perf;
  ExplainArgs explain;
  std::string health_service;
  std::string shell;  // for completion
};

// `arguments` must live as long as `app`.
void DeclareArguments(CLI::App& app, Arguments& arguments);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_ARGUMENTS_H_
