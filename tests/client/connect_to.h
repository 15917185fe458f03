// A client of the address, which must be one that Connect takes.

#ifndef GEMMD_TESTS_CLIENT_CONNECT_TO_H_
#define GEMMD_TESTS_CLIENT_CONNECT_TO_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "gemmd/client.h"

namespace gemm::testing {

inline Client ConnectTo(const std::string& address, ClientOptions options = {}) {
  options.address = address;
  absl::StatusOr<Client> client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_CONNECT_TO_H_
