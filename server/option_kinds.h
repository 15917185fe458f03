// How the values of options are read and written: one kind for sizes, one for durations, ...

#ifndef GEMMD_SERVER_OPTION_KINDS_H_
#define GEMMD_SERVER_OPTION_KINDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace gemm {

template <typename T>
struct Kind {
  std::string type;  // in --help
  // Errors say what is wrong with the text and what it may be.
  std::function<absl::StatusOr<T>(const std::string&)> parse;
  std::function<std::string(const T&)> format;
};

// 64MiB. `max` is 64 TiB by default.
Kind<uint64_t> Size(uint64_t min, uint64_t max = uint64_t{64} << 40);
std::string FormatSize(uint64_t bytes);

// 200us.
Kind<absl::Duration> Duration(absl::Duration max, absl::Duration min = absl::ZeroDuration());

// Written in full or as 2e15. `example` is for error texts.
Kind<double> Number(double min, double max, const char* example = "2e15");

// Whatever is written.
Kind<std::string> Text();

// host:port, or nothing.
Kind<std::string> AddressOrNone();

// Of a UNIX socket; of characters that need no escape in an address of gRPC.
Kind<std::string> SocketPath();

template <typename T>
absl::Status CheckRange(const T& value, const T& min, const T& max, const std::string& text,
                        const std::function<std::string(const T&)>& format) {
  if (min <= value && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("must be from ", format(min), " to ", format(max), ", not ", text));
}

// A whole number.
template <typename T>
Kind<T> Count(T min, T max) {
  const auto format = [](const T& value) { return absl::StrCat(value); };
  const auto parse = [=](const std::string& text) -> absl::StatusOr<T> {
    T value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a whole number from ",
                                                     format(min), " to ", format(max)));
    }
    const absl::Status in_range = CheckRange<T>(value, min, max, text, format);
    if (!in_range.ok()) return in_range;
    return value;
  };
  return {"COUNT", parse, format};
}

// One of the names.
template <typename T>
Kind<T> OneOf(std::vector<std::pair<std::string, T>> choices) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& choice : choices) names.push_back(choice.first);
  const std::string list = absl::StrJoin(names, "|");
  const auto parse = [choices, list](const std::string& text) -> absl::StatusOr<T> {
    for (const auto& [name, value] : choices) {
      if (name == text) return value;
    }
    return absl::InvalidArgumentError(absl::StrCat("must be one of ", list, ", not ", text));
  };
  const auto format = [choices](const T& value) {
    for (const auto& [name, choice] : choices) {
      if (choice == value) return name;
    }
    return std::string();
  };
  return {list, parse, format};
}

}  // namespace gemm

#endif  // GEMMD_SERVER_OPTION_KINDS_H_
