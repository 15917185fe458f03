#include "server/rpc/transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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

TEST(TransportTest, BoundsBuffersWithinTheHostWhereTheSystemAllowsThatMuch) {
  constexpr int kBytes = 512 << 10;
  const bool allowed = std::min(Limit("rmem_max"), Limit("wmem_max")) >= kBytes;
  const int plain = socket(AF_INET, SOCK_STREAM, 0);
  for (const bool within_host : {false, true}) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    SetTransport(fd, within_host);
    for (const int option : {SO_RCVBUF, SO_SNDBUF}) {
      EXPECT_EQ(BufferBytes(fd, option),
                within_host && allowed ? 2 * kBytes : BufferBytes(plain, option));
    }
    close(fd);
  }
  close(plain);
}

}  // namespace
}  // namespace gemm
