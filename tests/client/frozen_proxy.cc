#include "tests/client/frozen_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <vector>

namespace gemm::testing {
namespace {

constexpr int kPollMs = 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

struct Relay {
  int client = -1;
  int server = -1;
};

// Moves what is there; false once either side has closed.
bool Move(int from, int to) {
  char buffer[16384];
  const ssize_t got = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0) return true;
  return got > 0 && send(to, buffer, got, MSG_NOSIGNAL) == got;
}

}  // namespace

FrozenProxy::FrozenProxy(int server_port)
    : server_port_(server_port), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int small = 16384;  // so that a frozen peer's kernel is soon full
  setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  listen(listener_, 8);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

FrozenProxy::~FrozenProxy() {
  stopping_ = true;
  thread_.join();
  close(listener_);
}

void FrozenProxy::Run() {
  std::vector<Relay> relays;
  while (!stopping_) {
    if (frozen_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      continue;
    }
    std::vector<pollfd> ready = {{listener_, POLLIN, 0}};
    for (const Relay& relay : relays) {
      ready.push_back({relay.client, POLLIN, 0});
      ready.push_back({relay.server, POLLIN, 0});
    }
    poll(ready.data(), ready.size(), kPollMs);
    if (frozen_) continue;  // what came after Freeze finds nobody
    for (size_t i = 0; i < relays.size(); ++i) {
      Relay& relay = relays[i];
      const bool open = (ready[1 + 2 * i].revents == 0 || Move(relay.client, relay.server)) &&
                        (ready[2 + 2 * i].revents == 0 || Move(relay.server, relay.client));
      if (open) continue;
      close(relay.client);
      close(relay.server);
      relay = {-1, -1};
    }
    if (ready[0].revents == 0) continue;
    const Relay relay = {accept(listener_, nullptr, nullptr),
                         socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_in server = Loopback(server_port_);
    if (server_port_ == 0) {
      char byte;
      (void)!read(relay.client, &byte, 1);
    }
    if (server_port_ == 0 ||
        connect(relay.server, reinterpret_cast<const sockaddr*>(&server), sizeof server) != 0) {
      close(relay.client);
      close(relay.server);
      continue;
    }
    relays.push_back(relay);
  }
  for (const Relay& relay : relays) {
    close(relay.client);
    close(relay.server);
  }
}

}  // namespace gemm::testing
