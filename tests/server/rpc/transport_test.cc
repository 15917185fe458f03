#include "server/rpc/transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace gemm {
namespace {

int Limit(const char* name) {
  int bytes = 0;
  std::ifstream(std::string("/proc/sys/net/core/") + name) >> bytes;
  return bytes;
}

int BufferBytes(int fd, int option) {
  int bytes = 0;
  socklen_t size = sizeof(bytes);
  EXPECT_EQ(getsockopt(fd, SOL_SOCKET, option, &bytes, &size), 0);
  return bytes;
}

TEST(TransportTest, BoundsWhatIsSentWithinTheHostWhereTheSystemAllowsThatMuch) {
  constexpr int kBytes = 512 << 10;
  const bool allowed = Limit("wmem_max") >= kBytes;
  const int plain = socket(AF_INET, SOCK_STREAM, 0);
  for (const bool within_host : {false, true}) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    SetTransport(fd, within_host);
    EXPECT_EQ(BufferBytes(fd, SO_SNDBUF),
              within_host && allowed ? 2 * kBytes : BufferBytes(plain, SO_SNDBUF));
    EXPECT_EQ(BufferBytes(fd, SO_RCVBUF), BufferBytes(plain, SO_RCVBUF));
    close(fd);
  }
  close(plain);
}

}  // namespace
}  // namespace gemm
