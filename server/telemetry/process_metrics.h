// The standard process metrics (process_resident_memory_bytes and its like), and the heap.

#ifndef GEMMD_SERVER_TELEMETRY_PROCESS_METRICS_H_
#define GEMMD_SERVER_TELEMETRY_PROCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace gemm {

// A family of one value without labels.
prometheus::MetricFamily OneValue(std::string name, std::string help, prometheus::MetricType type,
                                  double value);

// Read from /proc and the allocator when scraped. A value that cannot be read is left out.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  ProcessMetrics();

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const double start_time_seconds_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_PROCESS_METRICS_H_
