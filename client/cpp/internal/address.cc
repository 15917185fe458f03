#include "client/cpp/internal/address.h"

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/error.h"

namespace gemm::client {
namespace {

absl::Status BadAddress(const std::string& address, const std::string& fault) {
  return InvalidField("address", absl::StrCat("\"", address, "\" ", fault,
                                              "; expected host:port, [ipv6]:port, "
                                              "dns:///host:port or unix:/path"));
}

}  // namespace

absl::Status CheckAddress(const std::string& address) {
  if (address.empty()) return BadAddress(address, "is empty");
  for (const char* scheme : {"http://", "https://", "grpc://", "grpcs://", "tcp://"}) {
    if (absl::StartsWithIgnoreCase(address, scheme)) {
      return BadAddress(address,
                        absl::StrCat("starts with ", scheme, ", which gRPC does not know"));
    }
  }
  for (const char* scheme : {"dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(address, scheme)) return absl::OkStatus();
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.back() == ']')
    return BadAddress(address, "has no port");
  const std::string host = address.substr(0, colon);
  if (host.empty()) return BadAddress(address, "has no host");
  if (absl::StrContains(host, ":") && (host.front() != '[' || host.back() != ']')) {
    return BadAddress(address, "has an IPv6 address without brackets");
  }
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return BadAddress(address, "has a port outside of 1 to 65535");
  }
  return absl::OkStatus();
}

bool IsWithinHost(const std::string& address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:"))
    return true;
  std::string host = address;
  for (const char* scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(host, scheme)) host.erase(0, std::strlen(scheme));
  }
  host.erase(0, host.rfind('/') + 1);  // dns://authority/host:port
  for (const char* local : {"127.", "localhost:", "[::1]"}) {
    if (absl::StartsWith(host, local)) return true;
  }
  return false;
}

}  // namespace gemm::client
