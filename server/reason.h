// Why a call was refused or dropped: one list for error details, metrics and logs.

#ifndef GEMMD_SERVER_REASON_H_
#define GEMMD_SERVER_REASON_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gemm {

enum class Reason {
  kInvalidRequest,   // INVALID_ARGUMENT: a field breaks a limit
  kMessageTooLarge,  // RESOURCE_EXHAUSTED: the request is over the message limit
  kResultTooLarge,   // RESOURCE_EXHAUSTED: the reply would be over the message limit
  kMemoryTooSmall,   // RESOURCE_EXHAUSTED: can never fit a memory budget or the device
  kQuotaExceeded,    // RESOURCE_EXHAUSTED: the caller's share of the matrices is used up
  kQueueFull,        // UNAVAILABLE: too much is waiting
  kMemoryFull,       // UNAVAILABLE: no memory for the moment
  kMatrixBusy,       // UNAVAILABLE: another call is writing just that
  kDraining,         // UNAVAILABLE: the server is going away
  kMatrixNotFound,   // NOT_FOUND
  kMatrixExists,     // ALREADY_EXISTS: the name is in use for something else
  kMatrixNotSealed,  // FAILED_PRECONDITION: rows are missing
  kDeadlinePassed,   // DEADLINE_EXCEEDED: the caller's
  kReceiveTimeout,   // DEADLINE_EXCEEDED: the message did not arrive in time
  kCallerGone,       // CANCELLED
  kUnsupported,      // UNIMPLEMENTED
  kDeviceFailed,     // INTERNAL
  kDeviceLost,       // INTERNAL: no device is left
};
inline constexpr int kReasonCount = 18;

std::string_view NameOf(Reason reason);  // "QUEUE_FULL"

// A status with the code that belongs to `reason`, carrying it. `field` is a path such as
// "product.a.leading_dimension" or empty.
absl::Status ErrorWithReason(Reason reason, const std::string& message, std::string field = {});

std::optional<Reason> ReasonOf(const absl::Status& status);
std::string FieldOf(const absl::Status& status);  // empty if none

// When a caller should try again: set for UNAVAILABLE reasons that pass by themselves.
std::optional<absl::Duration> RetryDelayOf(Reason reason);

}  // namespace gemm

#endif  // GEMMD_SERVER_REASON_H_
