// A server that can stop reading, and a client that soon gives it up.

#ifndef GEMMD_TESTS_CLIENT_FREEZABLE_PEER_H_
#define GEMMD_TESTS_CLIENT_FREEZABLE_PEER_H_

#include "absl/time/time.h"
#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"
#include "tests/client/frozen_proxy.h"

namespace gemm::testing {

class FreezablePeer {
 public:
  const Client& client() const { return client_; }

  void Freeze() { proxy_.Freeze(); }

 private:
  const FakeServer server_;
  FrozenProxy proxy_{server_.port()};
  const Client client_ = ConnectTo(
      proxy_.address(),
      {.timeout = absl::Milliseconds(500), .max_retries = 0, .stall_timeout = absl::Seconds(2)});
};

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_FREEZABLE_PEER_H_
