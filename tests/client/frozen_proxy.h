// A TCP relay that can stop reading, as a peer does whose process hangs.

#ifndef GEMMD_TESTS_CLIENT_FROZEN_PROXY_H_
#define GEMMD_TESTS_CLIENT_FROZEN_PROXY_H_

#include <atomic>
#include <string>
#include <thread>

namespace gemm::testing {

class FrozenProxy {
 public:
  // server_port: where to relay to on this host; 0 closes each connection after its first bytes.
  explicit FrozenProxy(int server_port);
  ~FrozenProxy();

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void Freeze() { frozen_ = true; }

 private:
  void Run();

  const int server_port_;
  int port_ = 0;
  int listener_ = -1;
  std::atomic<bool> frozen_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace gemm::testing

#endif  // GEMMD_TESTS_CLIENT_FROZEN_PROXY_H_
