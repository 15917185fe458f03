// The HTTP page that Prometheus scrapes, on cpp-httplib.
//
// Not prometheus-cpp's Exposer: the worker threads of its HTTP server have stacks of 100 KiB, and
// the thread-local storage of OpenBLAS and the CUDA runtime takes two thirds of that before they
// run, so that the first scrape overflowed them.

#ifndef GEMMD_SERVER_TELEMETRY_METRICS_PAGE_H_
#define GEMMD_SERVER_TELEMETRY_METRICS_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/metrics.h"

namespace gemm {

// Serves GET /metrics from threads of its own until destroyed, which takes up to two seconds while
// a caller is silent.
class MetricsPage {
 public:
  // Port 0 picks a free one. FAILED_PRECONDITION when the address cannot be bound. `metrics` must
  // outlive the page.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Serve(const std::string& host, int port,
                                                            const Metrics& metrics);
  virtual ~MetricsPage() = default;

  virtual int port() const = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_METRICS_PAGE_H_
