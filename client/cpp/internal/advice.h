// What a person should look at when a call fails and the server said nothing itself.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_ADVICE_H_
#define GEMMD_CLIENT_CPP_INTERNAL_ADVICE_H_

#include <string>

#include "absl/status/status.h"

namespace gemm::client {

struct NetworkFailure {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  std::string message;  // gRPC's
  std::string address;
  std::string method;
  bool proxy_in_use = false;  // the options allow one
};

// Empty where nothing helpful can be said.
std::string AdviceOn(const NetworkFailure& failure);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_ADVICE_H_
