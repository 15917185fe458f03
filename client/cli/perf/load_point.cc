#include "client/cli/perf/load_point.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace gemm::cli {
namespace {

constexpr int kMaxCallers = 10'000;
constexpr double kMinRate = 0.001;
constexpr double kMaxRate = 10e6;

std::vector<std::string> Split(const std::string& text, char separator) {
  return absl::StrSplit(text, separator);
}

}  // namespace

absl::StatusOr<std::vector<LoadPoint>> ParseConcurrency(const std::string& text) {
  std::vector<LoadPoint> points;
  for (const std::string& word : Split(text, ',')) {
    LoadPoint point;
    if (!absl::SimpleAtoi(word, &point.callers) || point.callers < 1 ||
        point.callers > kMaxCallers) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", word, "\" is not a number of callers from 1 to ", kMaxCallers));
    }
    points.push_back(point);
  }
  return points;
}

absl::StatusOr<std::vector<LoadPoint>> ParseRates(const std::string& text) {
  std::vector<LoadPoint> points;
  for (const std::string& word : Split(text, ',')) {
    LoadPoint point;
    if (!absl::SimpleAtod(word, &point.rate) || !(point.rate >= kMinRate) ||
        point.rate > kMaxRate) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", word, "\" is not a number of calls a second from ", kMinRate, " to ", kMaxRate));
    }
    points.push_back(point);
  }
  return points;
}

std::string Describe(const LoadPoint& point) {
  if (point.open()) return absl::StrFormat("%g calls/s", point.rate);
  return absl::StrCat(point.callers, point.callers == 1 ? " caller" : " callers");
}

}  // namespace gemm::cli
