// Sends bytes to a metrics page of this machine and tells what comes back.

#ifndef GEMMD_TESTS_SERVER_TELEMETRY_HTTP_CLIENT_H_
#define GEMMD_TESTS_SERVER_TELEMETRY_HTTP_CLIENT_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace gemm {

class Connection {
 public:
  explicit Connection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }

  void Send(std::string_view bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // All that comes until the other side closes.
  std::string Receive() {
    std::string reply;
    char buffer[4096];
    for (ssize_t count; (count = recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      reply.append(buffer, static_cast<size_t>(count));
    }
    return reply;
  }

 private:
  const int fd_;
};

inline std::string SendToMetricsPage(int port, std::string_view request) {
  Connection connection(port);
  connection.Send(request);
  return connection.Receive();
}

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_TELEMETRY_HTTP_CLIENT_H_
