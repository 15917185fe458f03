// What is said of a case once every contender has been measured, in turns.

#ifndef GEMMD_SERVER_BENCH_COMPARISON_H_
#define GEMMD_SERVER_BENCH_COMPARISON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "server/bench/bench_case.h"
#include "server/bench/contender.h"

namespace gemm::bench {

struct Row {
  std::string contender;
  double p50_us = 0;
  double p99_us = 0;
  // p50 of the calls' times without what the server spent on its device.
  double p50_without_device_us = 0;
  double calls_per_s = 0;  // median over the rounds
  double gb_per_s = 0;     // both ways
  // Median over the rounds of the floor's mean time of a call over this one's, without the device's
  // part: 1 is as fast as the floor.
  double of_floor = 0;
  double of_floor_with_device = 0;
};

// `rounds[i][j]` is what contender j did in round i; the first contender is the floor.
std::vector<Row> Compare(const BenchCase& bench_case, const std::vector<std::string>& contenders,
                         const std::vector<std::vector<Sample>>& rounds);

std::string ToTable(const BenchCase& bench_case, const std::vector<Row>& rows);
nlohmann::json ToJson(const BenchCase& bench_case, const Row& row);

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_COMPARISON_H_
