#include "client/cpp/internal/advice.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace gemm::client {
namespace {

struct Meaning {
  std::vector<const char*> signs;  // any of them, in gRPC's text in lower case
  const char* advice;              // @ is the address
};

// The first match counts.
const std::vector<Meaning>& Meanings() {
  static const auto& meanings = *new std::vector<Meaning>{
      {{"refused"}, "no server listens at @: is gemmd running there, and is the port right?"},
      {{"no such file or directory"}, "there is no socket at @: is gemmd running there?"},
      {{"dns resolution failed", "name resolution"},
       "the host of @ cannot be found: is its name right?"},
      {{"http1", "http/1", "http2 header with status"},
       "@ speaks HTTP but not gRPC: is it the metrics port, a web server, a proxy, or a port that "
       "expects TLS?"},
      {{"failed parsing http/2", "settings frame", "frame type"},
       "@ speaks something else than gRPC: is the port right? If it expects TLS: this client does "
       "not speak that"},
      {{"socket closed", "reset by peer", "broken pipe", "handshake"},
       "@ closed the connection: the server stopped, is not gemmd, or expects TLS, which this "
       "client does not speak"},
      {{"unreachable", "no route to host", "timed out", "timeout", "deadline"},
       "@ cannot be reached: is the host up, and does a firewall let the port through?"},
  };
  return meanings;
}

// The variable that gRPC takes a proxy from, or null.
const char* ProxyVariable() {
  for (const char* name : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return name;
  }
  return nullptr;
}

std::string AdviceOnConnection(const std::string& text, const NetworkFailure& failure) {
  // Whatever it was, it happened between here and the proxy.
  if (const char* variable = ProxyVariable(); failure.proxy_in_use && variable != nullptr) {
    return absl::StrCat(failure.address, " was tried through the proxy that ", variable,
                        " names: is the proxy meant, up, and willing to connect there?");
  }
  for (const Meaning& meaning : Meanings()) {
    for (const char* sign : meaning.signs) {
      if (!absl::StrContains(text, sign)) continue;
      return absl::StrReplaceAll(meaning.advice, {{"@", failure.address}});
    }
  }
  return {};
}

}  // namespace

std::string AdviceOn(const NetworkFailure& failure) {
  const std::string text = absl::AsciiStrToLower(failure.message);
  // A reply that is HTTP/2 without being gRPC has whatever code its HTTP status maps to.
  if (failure.code == absl::StatusCode::kUnavailable ||
      absl::StrContains(text, "http2 header with status")) {
    return AdviceOnConnection(text, failure);
  }
  if (failure.code == absl::StatusCode::kUnimplemented) {
    return absl::StrCat("the server at ", failure.address, " does not know ", failure.method,
                        ": it is older than this client (" GEMMD_CLIENT_VERSION
                        "), or speaks gRPC but is not gemmd");
  }
  return {};
}

}  // namespace gemm::client
