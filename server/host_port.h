// Addresses as operators write them.

#ifndef GEMMD_SERVER_HOST_PORT_H_
#define GEMMD_SERVER_HOST_PORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gemm {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;
};

// "host:port" or "[IPv6 address]:port".
absl::StatusOr<HostPort> ParseHostPort(std::string_view address);
std::string ToString(const HostPort& address);

// Whether only this machine can reach it. Of names it knows localhost alone.
bool IsLoopback(const std::string& host);

}  // namespace gemm

#endif  // GEMMD_SERVER_HOST_PORT_H_
