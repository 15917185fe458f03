#include "client/cpp/internal/backoff.h"

#include <algorithm>
#include <random>

#include "gemmd/error_detail.h"

namespace gemm::client {
namespace {

// In [0.5, 1).
double Jitter() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

}  // namespace

Backoff::Backoff(const ClientOptions& options)
    : limit_(options.backoff_limit),
      next_(std::min(options.backoff_initial, options.backoff_limit)),
      retries_left_(options.max_retries) {}

std::optional<absl::Duration> Backoff::NextWait(const absl::Status& status,
                                                absl::Duration time_left) {
  if (!absl::IsUnavailable(status) || retries_left_ == 0) return std::nullopt;
  --retries_left_;

  absl::Duration wait = next_ * Jitter();
  next_ = std::min(next_ * 2, limit_);
  // A server's delay is the least it asks for, so its jitter lengthens.
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (detail && detail->retry_delay) {
    wait = std::max(wait, *detail->retry_delay * (0.5 + Jitter()));
  }
  if (wait >= time_left) return std::nullopt;
  return wait;
}

}  // namespace gemm::client
