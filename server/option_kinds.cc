#include "server/option_kinds.h"

#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/host_port.h"

namespace gemm {
namespace {

std::optional<uint64_t> ParseSize(std::string text) {
  if (text.empty() || !absl::ascii_isdigit(text.front())) return std::nullopt;
  static const CLI::AsSizeValue as_size(/*kb_is_1000=*/false);
  try {
    as_size(text);
  } catch (const CLI::Error&) {
    return std::nullopt;
  }
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(text, &bytes)) return std::nullopt;
  return bytes;
}

std::string FormatDuration(const absl::Duration& duration) {
  return duration == absl::ZeroDuration() ? "0s" : absl::FormatDuration(duration);
}

std::string FormatText(const std::string& text) { return text; }

}  // namespace

std::string FormatSize(uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

Kind<uint64_t> Size(uint64_t min, uint64_t max) {
  const auto parse = [min, max](const std::string& text) -> absl::StatusOr<uint64_t> {
    const std::optional<uint64_t> bytes = ParseSize(text);
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a size such as 64MiB"));
    }
    const absl::Status in_range = CheckRange<uint64_t>(*bytes, min, max, text, FormatSize);
    if (!in_range.ok()) return in_range;
    return *bytes;
  };
  return {"SIZE", parse, FormatSize};
}

Kind<absl::Duration> Duration(absl::Duration max, absl::Duration min) {
  const auto parse = [min, max](const std::string& text) -> absl::StatusOr<absl::Duration> {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is not a duration such as 30s or 200us"));
    }
    const absl::Status in_range =
        CheckRange<absl::Duration>(duration, min, max, text, FormatDuration);
    if (!in_range.ok()) return in_range;
    return duration;
  };
  return {"DURATION", parse, FormatDuration};
}

Kind<double> Number(double min, double max, const char* example) {
  const auto format = [](const double& value) { return absl::StrCat(value); };
  const auto parse = [=](const std::string& text) -> absl::StatusOr<double> {
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is not a number such as ", example));
    }
    const absl::Status in_range = CheckRange<double>(value, min, max, text, format);
    if (!in_range.ok()) return in_range;
    return value;
  };
  return {"NUMBER", parse, format};
}

Kind<std::string> Text() {
  return {"NAME", [](const std::string& text) -> absl::StatusOr<std::string> { return text; },
          FormatText};
}

Kind<std::string> AddressOrNone() {
  const auto parse = [](const std::string& text) -> absl::StatusOr<std::string> {
    if (text.empty()) return text;
    if (const auto address = ParseHostPort(text); !address.ok()) return address.status();
    return text;
  };
  return {"HOST:PORT", parse, FormatText};
}

Kind<std::string> SocketPath() {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  constexpr char kMarks[] = "-._~/+@=,:";
  const auto parse = [=](const std::string& text) -> absl::StatusOr<std::string> {
    if (text.size() > kLongest) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\" has ", text.size(), " bytes; a socket's path has at most ", kLongest));
    }
    const bool well_formed = std::all_of(text.begin(), text.end(), [&](char c) {
      return absl::ascii_isalnum(c) || std::strchr(kMarks, c) != nullptr;
    });
    if (!well_formed || absl::StartsWith(text, "unix:") || absl::EndsWith(text, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is not a path such as /run/gemmd/gemmd.sock, of letters, ",
                       "digits and ", kMarks));
    }
    return text;
  };
  return {"PATH", parse, FormatText};
}

}  // namespace gemm
