// Many latencies in little memory.

#ifndef GEMMD_CLIENT_CLI_PERF_LATENCY_HISTOGRAM_H_
#define GEMMD_CLIENT_CLI_PERF_LATENCY_HISTOGRAM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gemm::cli {

// Counts by buckets that are 1/512 of their value wide at most: a percentile is that much too large
// at most and never too small; mean and maximum are exact. Not thread-safe.
class LatencyHistogram {
 public:
  void Add(std::chrono::nanoseconds latency);  // negative ones count as 0
  void Merge(const LatencyHistogram& other);

  int64_t count() const { return count_; }
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_ns_); }
  std::chrono::nanoseconds mean() const;

  // The least latency that `percent` of all do not exceed; 0 when there is none. 0 < percent <=
  // 100.
  std::chrono::nanoseconds Percentile(double percent) const;

 private:
  std::vector<int64_t> buckets_;  // as long as the largest latency needs
  int64_t count_ = 0;
  int64_t max_ns_ = 0;
  double sum_ns_ = 0;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_LATENCY_HISTOGRAM_H_
