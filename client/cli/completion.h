// Completion of gemmctl's arguments in a shell, made from the parser's own tables.

#ifndef GEMMD_CLIENT_CLI_COMPLETION_H_
#define GEMMD_CLIENT_CLI_COMPLETION_H_

#include <string>

#include "CLI/App.hpp"

namespace gemm::cli {

// A script for bash: completes commands, options and the values of those that have a fixed set;
// anything else is completed as a file's name.
std::string BashCompletion(const CLI::App& app);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_COMPLETION_H_
