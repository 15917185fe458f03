#include "server/telemetry/metrics_page.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemm {
namespace {

// A caller that takes longer is hung up on: meanwhile the others wait.
constexpr absl::Duration kReadTime = absl::Seconds(2);
constexpr absl::Duration kWriteTime = absl::Seconds(5);
constexpr size_t kRequestLimit = 8192;  // bytes of the request line and headers

// Owns a file descriptor.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A socket that listens on the first address of `host` that lets it.
absl::StatusOr<Fd> Bind(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) return absl::FailedPreconditionError(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Fd fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;  // a restart must not wait for old connections to time out
    if (fd.valid() && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd.get(), address->ai_addr, address->ai_addrlen) == 0 && listen(fd.get(), 16) == 0) {
      return fd;
    }
    last_error = errno;
  }
  return absl::FailedPreconditionError(strerror(last_error));
}

int PortOf(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

class MetricsPageImpl final : public MetricsPage {
 public:
  MetricsPageImpl(Fd listener, const Metrics& metrics)
      : listener_(std::move(listener)), metrics_(metrics) {}

  ~MetricsPageImpl() override {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  int port() const override { return PortOf(listener_); }

 private:
  void Serve();
  std::string Page() const;
  std::string Reply(std::string_view request) const;
  bool ReadRequest(int fd, std::string& request) const;
  void Write(int fd, std::string_view reply) const;
  // Waits for `events` on `fd`; false when it is too late or the page is to stop.
  bool Wait(int fd, short events, absl::Time deadline) const;

  const Fd listener_;
  const Metrics& metrics_;
  const Fd stop_{eventfd(0, EFD_CLOEXEC)};   // readable once the page is to stop
  std::thread thread_{[this] { Serve(); }};  // last: it uses the rest
};

void MetricsPageImpl::Serve() {
  while (Wait(listener_.get(), POLLIN, absl::InfiniteFuture())) {
    const Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) {
      std::string request;
      if (ReadRequest(connection.get(), request)) Write(connection.get(), Reply(request));
    } else {  // the caller has gone, or there are no descriptors for now
      Wait(-1, 0, absl::Now() + absl::Milliseconds(10));
    }
  }
}

std::string MetricsPageImpl::Page() const {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& collectable : metrics_.collectables()) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    families.insert(families.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string MetricsPageImpl::Reply(std::string_view request) const {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::string_view method = line.substr(0, line.find(' '));
  std::string_view path = line.substr(std::min(method.size() + 1, line.size()));
  path = path.substr(0, path.find_first_of(" ?"));
  std::string status = "200 OK";
  std::string body;
  if (method != "GET" && method != "HEAD") {
    status = "405 Method Not Allowed";
  } else if (path != "/metrics") {
    status = "404 Not Found";
    body = "See /metrics.\n";
  } else {
    body = Page();
  }
  return absl::StrCat("HTTP/1.1 ", status,
                      "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"
                      "\r\nContent-Length: ",
                      body.size(), "\r\nConnection: close\r\n\r\n", method == "HEAD" ? "" : body);
}

bool MetricsPageImpl::ReadRequest(int fd, std::string& request) const {
  const absl::Time deadline = absl::Now() + kReadTime;
  char buffer[1024];
  while (!absl::StrContains(request, "\r\n\r\n")) {
    if (request.size() > kRequestLimit || !Wait(fd, POLLIN, deadline)) return false;
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count > 0) {
      request.append(buffer, static_cast<size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    }
  }
  return true;
}

void MetricsPageImpl::Write(int fd, std::string_view reply) const {
  const absl::Time deadline = absl::Now() + kWriteTime;
  while (!reply.empty() && Wait(fd, POLLOUT, deadline)) {
    const ssize_t count = send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
    if (count > 0) {
      reply.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EAGAIN && errno != EINTR) {
      return;
    }
  }
}

bool MetricsPageImpl::Wait(int fd, short events, absl::Time deadline) const {
  pollfd fds[] = {{stop_.get(), POLLIN, 0}, {fd, events, 0}};
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    // One more millisecond, so as not to spin through the last one.
    const int timeout_ms = left == absl::InfiniteDuration()
                               ? -1
                               : static_cast<int>(absl::ToInt64Milliseconds(left) + 1);
    if (poll(fds, std::size(fds), timeout_ms) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return false;
    if (fds[1].revents != 0) return true;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Serve(const std::string& host, int port,
                                                                const Metrics& metrics) {
  absl::StatusOr<Fd> listener = Bind(host, port);
  if (!listener.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", host, ":", port, ": ",
                                                      std::string(listener.status().message()),
                                                      " (--metrics-listen)"));
  }
  return std::make_unique<MetricsPageImpl>(*std::move(listener), metrics);
}

}  // namespace gemm
