#include "client/cpp/internal/address.h"

#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
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

// The variable that gRPC would take a proxy from, or null.
const char* ProxyVariable() {
  for (const char* name : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return name;
  }
  return nullptr;
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

std::string AdviceWhenUnavailable(const std::string& grpc_message, const std::string& address,
                                  bool proxy_in_use) {
  const std::string lower = absl::AsciiStrToLower(grpc_message);
  const auto says = [&lower](const char* text) { return absl::StrContains(lower, text); };
  std::string advice;
  if (says("refused") || says("no such file or directory")) {
    advice = absl::StrCat("no server listens at ", address, ": is gemmd running there?");
  } else if (says("dns resolution failed") || says("name resolution")) {
    advice = absl::StrCat("the host of ", address, " cannot be found: is its name right?");
  } else if (says("network is unreachable") || says("no route to host") || says("timed out") ||
             says("deadline exceeded")) {
    advice = absl::StrCat(address, " cannot be reached: is the host up and the port open?");
  } else if (says("socket closed") || says("handshake") || says("reset by peer") ||
             says("broken pipe") || says("http1") || says("http/2")) {
    advice = absl::StrCat("whatever listens at ", address,
                          " closed the connection: it stopped, is not gemmd, or expects TLS, "
                          "which this client does not speak");
  }
  if (const char* variable = ProxyVariable(); proxy_in_use && variable != nullptr) {
    absl::StrAppend(&advice, advice.empty() ? "" : "; ", "the environment sets ", variable,
                    " and this client was told to use it: is the proxy meant?");
  }
  return advice;
}

}  // namespace gemm::client
