// gemmctl: a gemmd server from the command line. Parses arguments; commands.h does the rest.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/arguments.h"
#include "client/cli/completion.h"
#include "client/cli/temporary_file.h"
#include "gemmd/tune_process.h"

namespace gemm::cli {
namespace {

ExitCode Run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Multiplies matrices on a gemmd server, and asks it about itself.", "gemmctl");
  DeclareArguments(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      app.exit(error);
      return kSuccess;
    }
    const auto commands = app.get_subcommands();
    PrintError(std::string(error.what()) + " (see gemmctl " +
               (commands.empty() ? "" : commands[0]->get_name() + " ") + "--help)");
    return kBadInput;
  }
  if (app.got_subcommand("completion")) {
    std::fputs(BashCompletion(app).c_str(), stdout);
    return kSuccess;
  }
  const ClientOptions& client = arguments.client;
  const bool json = arguments.json;
  if (app.got_subcommand("multiply")) return RunMultiply(client, arguments.multiply, json);
  if (app.got_subcommand("put")) return RunPut(client, arguments.put, json);
  if (app.got_subcommand("get")) return RunGet(client, arguments.get, json);
  if (app.got_subcommand("list")) return RunList(client, json);
  if (app.got_subcommand("rm")) return RunRemove(client, arguments.remove, json);
  if (app.got_subcommand("perf")) {
    const bool upload = arguments.perf.upload_bytes > 0;
    return (upload ? RunPerfUpload : RunPerf)(client, arguments.perf, json);
  }
  if (app.got_subcommand("info")) return RunInfo(client, json);
  if (app.got_subcommand("health")) return RunHealth(client, arguments.health_service, json);
  return RunExplain(client, arguments.explain, json);
}

// What was printed is an output as any file: a script must not take half of it for the whole.
ExitCode AfterOutput(ExitCode code) {
  const int fault = std::fflush(stdout) == 0 ? 0 : errno;
  if (fault == 0 && std::ferror(stdout) == 0) return code;
  PrintError(std::string("standard output cannot be written") +
             (fault == 0 ? "" : std::string(": ") + std::strerror(fault)));
  return code == kSuccess ? kBadInput : code;
}

}  // namespace
}  // namespace gemm::cli

// CLI11 throws past Run only for options that are declared wrongly: those should end the program.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  gemm::TuneClientProcess();
  // gRPC logs its own view of each failure to stderr; ours says the same in plain words.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  gemm::cli::RemoveTemporaryFilesOnSignal();
  return gemm::cli::AfterOutput(gemm::cli::Run(argc, argv));
}
