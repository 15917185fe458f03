// The HTTP page that Prometheus scrapes.
//
// Our own, and not prometheus-cpp's Exposer: the worker threads of its HTTP server have stacks of
// 100 KiB, and the thread-local storage of OpenBLAS and the CUDA runtime takes two thirds of that
// before they run, so that the first scrape overflowed them. A scraper needs little: this serves
// GET /metrics, one connection at a time, each closed after its reply.

#ifndef GEMMD_SERVER_TELEMETRY_METRICS_PAGE_H_
#define GEMMD_SERVER_TELEMETRY_METRICS_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/metrics.h"

namespace gemm {

// Serves from a thread of its own until destroyed, which takes no time whatever callers do.
class MetricsPage {
 public:
  // Port 0 picks a free one. FAILED_PRECONDITION, with the system's reason, when the address cannot
  // be bound. `metrics` must outlive the page.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Serve(const std::string& host, int port,
                                                            const Metrics& metrics);
  virtual ~MetricsPage() = default;

  virtual int port() const = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_METRICS_PAGE_H_
