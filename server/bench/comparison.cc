#include "server/bench/comparison.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace gemm::bench {
namespace {

// Of at least one value; the upper one where it falls between two.
double Quantile(std::vector<double> values, double q) {
  const auto at = std::min(values.size() - 1, static_cast<size_t>(q * values.size()));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[at];
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::vector<Row> Compare(const BenchCase& bench_case, const std::vector<std::string>& contenders,
                         const std::vector<std::vector<Sample>>& rounds) {
  std::vector<Row> rows;
  for (size_t j = 0; j < contenders.size(); ++j) {
    std::vector<double> call_us;
    std::vector<double> wire_us;  // without the device
    std::vector<double> calls_per_s;
    std::vector<double> of_floor;
    std::vector<double> of_floor_with_device;
    for (const std::vector<Sample>& round : rounds) {
      const Sample& sample = round[j];
      call_us.insert(call_us.end(), sample.call_us.begin(), sample.call_us.end());
      for (size_t i = 0; i < sample.call_us.size(); ++i) {
        wire_us.push_back(sample.call_us[i] - sample.device_us[i]);
      }
      calls_per_s.push_back(static_cast<double>(sample.call_us.size()) / sample.wall_s);
      const double floor_us = Sum(round.front().call_us);
      of_floor.push_back(floor_us / (Sum(sample.call_us) - Sum(sample.device_us)));
      of_floor_with_device.push_back(floor_us / Sum(sample.call_us));
    }
    Row& row = rows.emplace_back();
    row.contender = contenders[j];
    row.p50_us = Quantile(call_us, 0.5);
    row.p99_us = Quantile(call_us, 0.99);
    row.p50_without_device_us = Quantile(wire_us, 0.5);
    row.calls_per_s = Quantile(calls_per_s, 0.5);
    const uint64_t bytes = bench_case.up_bytes() + bench_case.down_bytes();
    row.gb_per_s = row.calls_per_s * static_cast<double>(bytes) / 1e9;
    row.of_floor = Quantile(of_floor, 0.5);
    row.of_floor_with_device = Quantile(of_floor_with_device, 0.5);
  }
  return rows;
}

std::string ToTable(const BenchCase& bench_case, const std::vector<Row>& rows) {
  std::string table = absl::StrFormat(
      "\n%dx%dx%d: %.1f KiB up, %.1f KiB down, %d channel%s\n"
      "%-24s %10s %10s %12s %10s %8s %9s %9s\n",
      bench_case.m, bench_case.n, bench_case.k, bench_case.up_bytes() / 1024.0,
      bench_case.down_bytes() / 1024.0, bench_case.channels, bench_case.channels == 1 ? "" : "s",
      "", "p50 us", "p99 us", "p50-device", "calls/s", "GB/s", "of floor", "-device");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&table, "%-24s %10.1f %10.1f %12.1f %10.1f %8.2f %9.3f %9.3f\n",
                          row.contender, row.p50_us, row.p99_us, row.p50_without_device_us,
                          row.calls_per_s, row.gb_per_s, row.of_floor_with_device, row.of_floor);
  }
  return table;
}

nlohmann::json ToJson(const BenchCase& bench_case, const Row& row) {
  return {{"m", bench_case.m},
          {"n", bench_case.n},
          {"k", bench_case.k},
          {"channels", bench_case.channels},
          {"up_bytes", bench_case.up_bytes()},
          {"down_bytes", bench_case.down_bytes()},
          {"contender", row.contender},
          {"p50_us", row.p50_us},
          {"p99_us", row.p99_us},
          {"p50_without_device_us", row.p50_without_device_us},
          {"calls_per_s", row.calls_per_s},
          {"gb_per_s", row.gb_per_s},
          {"of_floor", row.of_floor_with_device},
          {"of_floor_without_device", row.of_floor}};
}

}  // namespace gemm::bench
