// What a load has measured.

#ifndef GEMMD_CLIENT_CLI_PERF_TALLY_H_
#define GEMMD_CLIENT_CLI_PERF_TALLY_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "client/cli/perf/latency_histogram.h"
#include "client/cli/perf/shape_mix.h"
#include "client/cli/phases.h"
#include "gemmd/multiply.h"

namespace gemm::cli {

// Not thread-safe.
class Tally {
 public:
  // A call that was answered. `wait` is the part of its latency before it was sent.
  void AddCall(std::chrono::nanoseconds latency, std::chrono::nanoseconds wait);

  // A product of such a call. `share` is what of the call's time it stands for: 1 over the number
  // of products that succeeded.
  void AddProduct(const MixShape& shape, const MultiplyReport& report, double share);

  // A call that failed, or a product in a call that did not.
  void AddError(absl::StatusCode code) { ++errors_[code]; }

  void AddUnsent(int64_t calls) { unsent_ += calls; }

  void Merge(const Tally& other);
  void set_seconds(double seconds) { seconds_ = seconds; }

  double seconds() const { return seconds_; }  // that it took
  int64_t calls() const { return latency_.count(); }
  int64_t products() const { return products_; }
  int64_t unsent() const { return unsent_; }  // due, and never sent for want of free callers
  const std::map<absl::StatusCode, int64_t>& errors() const { return errors_; }
  int64_t failures() const;  // errors and unsent
  const LatencyHistogram& latency() const { return latency_; }

  double calls_per_second() const { return static_cast<double>(calls()) / seconds_; }
  double products_per_second() const { return static_cast<double>(products_) / seconds_; }
  double gigabytes_per_second() const { return payload_bytes_ / seconds_ * 1e-9; }  // both ways
  double teraflops() const { return flops_ / seconds_ * 1e-12; }

  // Of the mean call.
  double mean_seconds() const;
  double mean_wait_seconds() const;
  double mean_phase_seconds(size_t phase) const;
  double mean_rest_seconds() const;  // the wire and the client; none of it if panels overlap

 private:
  LatencyHistogram latency_;
  double seconds_ = 1.0;
  double wait_seconds_ = 0;
  std::array<double, kPhaseNames.size()> phase_seconds_ = {};
  int64_t products_ = 0;
  double payload_bytes_ = 0;
  double flops_ = 0;
  int64_t unsent_ = 0;
  std::map<absl::StatusCode, int64_t> errors_;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_TALLY_H_
