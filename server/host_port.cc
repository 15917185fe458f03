#include "server/host_port.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gemm {

absl::StatusOr<HostPort> ParseHostPort(std::string_view address) {
  const std::string text(address);
  const size_t colon = text.rfind(':');
  HostPort result;
  if (colon != std::string::npos) result.host = text.substr(0, colon);
  const bool bracketed =
      result.host.size() > 2 && result.host.front() == '[' && result.host.back() == ']';
  if (bracketed) result.host = result.host.substr(1, result.host.size() - 2);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool well_formed = !result.host.empty() &&
                           result.host.find_first_of("[]/") == std::string::npos &&
                           bracketed == absl::StrContains(result.host, ":") && !port.empty() &&
                           std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
                           absl::SimpleAtoi(port, &result.port) && result.port <= 65535;
  if (!well_formed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is not host:port such as 127.0.0.1:50051 or [::1]:50051, port 0 to 65535"));
  }
  return result;
}

std::string ToString(const HostPort& address) {
  const bool v6 = absl::StrContains(address.host, ":");
  return absl::StrCat(v6 ? "[" : "", address.host, v6 ? "]:" : ":", address.port);
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace gemm
