// Checks on a server's address.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_ADDRESS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace gemm::client {

// INVALID_ARGUMENT unless gRPC can make sense of the address.
absl::Status CheckAddress(const std::string& address);

// Whether it is one of this machine, as far as can be told without asking anybody.
bool IsWithinHost(const std::string& address);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_ADDRESS_H_
