#include "server/rpc/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/engine/clock.h"
#include "server/rpc/transport.h"
#include "server/rpc/unix_socket.h"
#include "server/telemetry/logging.h"

namespace gemm {
namespace {

constexpr int kBacklog = 4096;  // the kernel makes it net.core.somaxconn at most

// After a failure, until something may have changed.
constexpr int kPauseMs = 100;
constexpr absl::Duration kComplainAgain = absl::Seconds(10);

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr_in& v4() { return reinterpret_cast<sockaddr_in&>(storage); }
  sockaddr_in6& v6() { return reinterpret_cast<sockaddr_in6&>(storage); }

  int port() { return ntohs(storage.ss_family == AF_INET6 ? v6().sin6_port : v4().sin_port); }
  void set_port(int port) {
    (storage.ss_family == AF_INET6 ? v6().sin6_port : v4().sin_port) =
        htons(static_cast<uint16_t>(port));
  }
  bool IsAny() {
    return storage.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6().sin6_addr) != 0
                                         : v4().sin_addr.s_addr == htonl(INADDR_ANY);
  }
  bool IsLoopback() {
    return storage.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6().sin6_addr) != 0
                                         : ntohl(v4().sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
};

Address AnyOfBothFamilies(int port) {
  Address any;
  any.storage.ss_family = AF_INET6;
  any.size = sizeof(sockaddr_in6);
  any.set_port(port);
  return any;
}

// A socket that listens there; -1 with errno set where none can.
int ListenOn(Address address) {
  const int family = address.storage.ss_family;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (family != AF_UNIX) {
    const int on = 1;
    const int off = 0;
    // A restart must not wait for old connections to time out.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    SetTransport(fd, address.IsLoopback());
  }
  if (bind(fd, address.get(), address.size) == 0 && listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  Address address;
  address.size = sizeof(address.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return address.port();
}

absl::Status CannotListen(const std::string& where, absl::string_view why, const char* option) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", where, ": ", why, " (", option, ")"));
}

}  // namespace

absl::StatusOr<int> Listener::ListenOnTcp(const std::string& address) {
  const auto cannot = [&address](absl::string_view why) {
    return CannotListen(address, why, "--listen");
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return cannot("not host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);

  const addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return cannot(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);

  int port = 0;
  int first_error = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Address there;
    std::memcpy(&there.storage, entry->ai_addr, entry->ai_addrlen);
    there.size = entry->ai_addrlen;
    if (port != 0) there.set_port(port);
    int fd = -1;
    if (there.IsAny()) fd = ListenOn(AnyOfBothFamilies(there.port()));
    // Without IPv6 it is IPv4 alone.
    if (fd < 0 && (!there.IsAny() || errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
      fd = ListenOn(there);
    }
    if (fd < 0) {
      if (first_error == 0) first_error = errno;
      continue;
    }
    fds_.push_back(fd);
    port = PortOf(fd);
  }
  if (port != 0) return port;
  return cannot(first_error == EADDRINUSE ? "the address is in use" : std::strerror(first_error));
}

absl::Status Listener::ListenOnUnix(const std::string& path) {
  const auto cannot = [&path](absl::string_view why) {
    return CannotListen(path, why, "--unix-listen");
  };
  if (absl::Status status = ClearUnixSocketPath(path); !status.ok()) {
    return cannot(status.message());
  }
  Address address;
  auto& unix_address = reinterpret_cast<sockaddr_un&>(address.storage);
  unix_address.sun_family = AF_UNIX;
  std::memcpy(unix_address.sun_path, path.c_str(), path.size() + 1);  // it fits, or had not passed
  address.size = sizeof(unix_address);
  int fd = -1;
  {
    const PrivateSocketFiles private_files;
    fd = ListenOn(address);
  }
  if (fd < 0) return cannot(std::strerror(errno));
  fds_.push_back(fd);
  unix_path_ = path;
  lstat(path.c_str(), &unix_file_);
  return absl::OkStatus();
}

void Listener::Start(Take take) {
  take_ = std::move(take);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { TakeConnections(); });
}

void Listener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof(one));
    thread_.join();
    close(stop_fd_);
  }
  struct stat there = {};
  // Unless it is somebody else's by now.
  if (!unix_path_.empty() && lstat(unix_path_.c_str(), &there) == 0 &&
      there.st_dev == unix_file_.st_dev && there.st_ino == unix_file_.st_ino) {
    unlink(unix_path_.c_str());
  }
  unix_path_.clear();
  for (const int fd : fds_) close(fd);
  fds_.clear();
}

void Listener::TakeConnections() {
  std::vector<pollfd> waiting = {{.fd = stop_fd_, .events = POLLIN, .revents = 0}};
  for (const int fd : fds_) waiting.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  absl::Time complained = absl::InfinitePast();
  for (;;) {
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;  // EINTR
    if (waiting.front().revents != 0) return;
    for (size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const int fd = accept4(waiting[i].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        take_(waiting[i].fd, fd);
        continue;
      }
      // The caller has gone again.
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      const std::string error = std::strerror(errno);
      if (const absl::Time now = SteadyNow(); now - complained > kComplainAgain) {
        complained = now;
        Log(LogLevel::kError, "no connection can be taken at present", {{"error", error}});
      }
      // It waits on, so that poll would return at once.
      if (poll(waiting.data(), 1, kPauseMs) > 0) return;
    }
  }
}

}  // namespace gemm
