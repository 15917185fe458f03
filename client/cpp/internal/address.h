// Checks on a server's address, and advice when it does not answer.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_ADDRESS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace gemm::client {

// INVALID_ARGUMENT unless gRPC can make sense of the address.
absl::Status CheckAddress(const std::string& address);

// What a person should look at after UNAVAILABLE with this text from gRPC; empty where nothing
// helpful can be said. proxy_in_use: the options allow a proxy.
std::string AdviceWhenUnavailable(const std::string& grpc_message, const std::string& address,
                                  bool proxy_in_use);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_ADDRESS_H_
