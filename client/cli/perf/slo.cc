#include "client/cli/perf/slo.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/format.h"

namespace gemm::cli {
namespace {

std::optional<double> PercentileOf(const std::string& key) {
  if (key == "max") return 100.0;
  double percentile = 0;
  if (key.size() < 2 || key[0] != 'p' || key[1] < '0' || key[1] > '9') return std::nullopt;
  if (!absl::SimpleAtod(key.substr(1), &percentile)) return std::nullopt;
  if (!(percentile > 0) || percentile > 100) return std::nullopt;
  return percentile;
}

absl::StatusOr<SloBound> ParseBound(const std::string& word) {
  const std::pair<std::string, std::string> halves = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const auto& [key, value] = halves;
  SloBound bound;
  bound.text = word;
  if (key == "errors") {
    absl::string_view number = value;
    bound.errors_are_percent = absl::ConsumeSuffix(&number, "%");
    if (!absl::SimpleAtod(number, &bound.errors) || !(bound.errors >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", word, "\" is not of the form errors=0 or errors=0.1%"));
    }
    return bound;
  }
  bound.percentile = PercentileOf(key);
  if (!bound.percentile || !absl::ParseDuration(value, &bound.latency) ||
      bound.latency <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", word, "\" is not of the form p99=5ms, p99.9=20ms, max=1s or errors=0"));
  }
  return bound;
}

std::optional<std::string> Fault(const SloBound& bound, const Tally& tally) {
  if (!bound.percentile) {
    double failures = static_cast<double>(tally.failures());
    const double tries = failures + static_cast<double>(tally.calls());
    if (bound.errors_are_percent) failures = tries == 0 ? 0 : failures / tries * 100;
    if (failures <= bound.errors) return std::nullopt;
    return absl::StrFormat("errors are %g%s, over %s", failures,
                           bound.errors_are_percent ? "%" : "", bound.text);
  }
  const std::string name(bound.text.substr(0, bound.text.find('=')));
  if (tally.calls() == 0) return absl::StrCat(name, " is unknown, since no call was answered");
  const absl::Duration latency = absl::FromChrono(tally.latency().Percentile(*bound.percentile));
  if (latency <= bound.latency) return std::nullopt;
  return absl::StrCat(name, " is ", FormatTime(latency), ", over ", bound.text);
}

std::vector<std::string> Split(const std::string& text, char separator) {
  return absl::StrSplit(text, separator);
}

}  // namespace

absl::StatusOr<std::vector<SloBound>> ParseSlo(const std::string& text) {
  std::vector<SloBound> bounds;
  for (const std::string& word : Split(text, ',')) {
    absl::StatusOr<SloBound> bound = ParseBound(word);
    if (!bound.ok()) return bound.status();
    bounds.push_back(*std::move(bound));
  }
  return bounds;
}

std::vector<std::string> Broken(const std::vector<SloBound>& bounds, const Tally& tally) {
  std::vector<std::string> faults;
  for (const SloBound& bound : bounds) {
    if (std::optional<std::string> fault = Fault(bound, tally)) faults.push_back(*std::move(fault));
  }
  return faults;
}

}  // namespace gemm::cli
