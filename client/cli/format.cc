#include "client/cli/format.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {

std::string FormatTime(absl::Duration time) {
  return absl::StrFormat("%.3f ms", absl::ToDoubleMilliseconds(time));
}

std::string FormatSeconds(absl::Duration time) {
  const absl::Duration whole = absl::Trunc(time, absl::Seconds(1));
  return whole == absl::ZeroDuration() ? "0s" : absl::FormatDuration(whole);
}

std::string FormatBytes(double bytes) {
  if (bytes < 1024) return absl::StrFormat("%.0f B", bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB"}) {
    if (bytes < 1024) break;
    bytes /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.2f %s", bytes, unit);
}

std::string ShapeOf(const MatrixInfo& matrix) {
  return absl::StrCat(matrix.rows, " x ", matrix.columns, " ",
                      matrix.element_type ? std::string(NameOf(*matrix.element_type)) : "?");
}

nlohmann::json JsonOf(const MatrixInfo& matrix) {
  return {{"name", matrix.name},
          {"dtype", matrix.element_type ? std::string(NameOf(*matrix.element_type)) : ""},
          {"shape", {matrix.rows, matrix.columns}},
          {"rows_written", matrix.rows_written},
          {"sealed", matrix.sealed},
          {"ttl_seconds", absl::ToDoubleSeconds(matrix.time_to_live)},
          {"expires_in_seconds", absl::ToDoubleSeconds(matrix.expires_in)},
          {"memory_bytes", matrix.memory_bytes},
          {"device_index", matrix.device_index}};
}

void PrintJson(const nlohmann::json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

}  // namespace gemm::cli
