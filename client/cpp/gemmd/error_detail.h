// The machine-readable half of an error; the status's text is the half for people.

#ifndef GEMMD_CLIENT_CPP_GEMMD_ERROR_DETAIL_H_
#define GEMMD_CLIENT_CPP_GEMMD_ERROR_DETAIL_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gemm {

struct ErrorDetail {
  std::string reason;  // for example "QUEUE_FULL", "INVALID_REQUEST", "MESSAGE_TOO_LARGE"
  std::string field;   // the argument at fault, for example "a.leading_dimension"; may be empty
  std::optional<absl::Duration> retry_delay;  // when to try again, where the server said so
};

// What a Client's error says, be it found by the client or sent by the server. Nothing for errors
// that carry no detail, such as those of the network.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_ERROR_DETAIL_H_
