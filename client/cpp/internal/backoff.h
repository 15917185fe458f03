// How long to wait before the next attempt.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_BACKOFF_H_
#define GEMMD_CLIENT_CPP_INTERNAL_BACKOFF_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gemmd/client.h"

namespace gemm::client {

// One call's retries. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(const ClientOptions& options);

  // The wait before trying again after `status`, or nothing when the error is final: of another
  // kind, out of retries, or the wait would leave none of `time_left`.
  std::optional<absl::Duration> NextWait(const absl::Status& status, absl::Duration time_left);

 private:
  const absl::Duration limit_;
  absl::Duration next_;
  int retries_left_;
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_BACKOFF_H_
