// Numbers for people, JSON for programs.

#ifndef GEMMD_CLIENT_CLI_FORMAT_H_
#define GEMMD_CLIENT_CLI_FORMAT_H_

#include <string>

#include "absl/time/time.h"
#include "gemmd/matrix.h"
#include "nlohmann/json_fwd.hpp"

namespace gemm::cli {

std::string FormatTime(absl::Duration time);     // "12.345 ms"
std::string FormatSeconds(absl::Duration time);  // "1m5s", whole ones
std::string FormatBytes(double bytes);           // "1.50 MiB"

// "1 x 2 f32"; what this client does not know is "?".
std::string ShapeOf(const MatrixInfo& matrix);
nlohmann::json JsonOf(const MatrixInfo& matrix);

// One line to stdout. Text that is not UTF-8 is repaired rather than refused.
void PrintJson(const nlohmann::json& json);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_FORMAT_H_
