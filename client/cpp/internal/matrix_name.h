// Names of matrices on the server.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_MATRIX_NAME_H_
#define GEMMD_CLIENT_CPP_INTERNAL_MATRIX_NAME_H_

#include <string>

#include "absl/status/status.h"

namespace gemm::client {

// INVALID_ARGUMENT names `field`.
absl::Status CheckMatrixName(const std::string& field, const std::string& name);

// A random UUID. The client makes names up itself, so that a call which is tried again means the
// same matrix.
std::string NewMatrixName();

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_MATRIX_NAME_H_
