// Building the errors that GetErrorDetail reads.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_ERROR_H_
#define GEMMD_CLIENT_CPP_INTERNAL_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace gemm::client {

// INVALID_ARGUMENT, "<field> <fault>", as the server words its own.
absl::Status InvalidField(const std::string& field, const std::string& fault);

// An error of this client's own with a reason and no field.
absl::Status ErrorWithReason(absl::StatusCode code, const std::string& reason,
                             const std::string& message);

// An error of the server's; `details` is its grpc-status-details-bin, empty if it sent none.
absl::Status ErrorWithDetails(absl::StatusCode code, const std::string& message,
                              const std::string& details);

// The same error, details included, in other words.
absl::Status Reword(const absl::Status& status, const std::string& message);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_ERROR_H_
