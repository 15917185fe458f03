// The only place where a status of ours becomes what callers see.

#ifndef GEMMD_SERVER_RPC_ERROR_STATUS_H_
#define GEMMD_SERVER_RPC_ERROR_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "gemm/v1/error_details.pb.h"

namespace gemm {

// With google.rpc details: ErrorInfo (reason, field), BadRequest when a field is known, RetryInfo
// when trying again will help.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same as a message, for an error of a part of a call.
v1::StatusDetails ToStatusDetails(const absl::Status& status);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_ERROR_STATUS_H_
