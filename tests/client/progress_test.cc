#include "client/cli/progress.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/time/clock.h"
#include "client/cli/tcp_traffic.h"

namespace gemm::cli {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(TransferProgressTest, TellsTheLifeOfACall) {
  TransferProgress progress("multiplying", 4 * kMiB, 2 * kMiB);
  const auto at = [&](double seconds, uint64_t sent, uint64_t received) {
    return progress.Describe(absl::Seconds(seconds), TcpTraffic{sent, received});
  };
  EXPECT_EQ(at(1, kMiB, 500), "[#####...............] sent 1.00 MiB of 4.00 MiB (25%), 1.00 MiB/s");
  EXPECT_EQ(at(1.5, 2 * kMiB, 500),
            "[##########..........] sent 2.00 MiB of 4.00 MiB (50%), 2.00 MiB/s");
  EXPECT_EQ(at(2, 4 * kMiB + 999, 500), "waiting for the server, 2s");
  EXPECT_EQ(at(3, 4 * kMiB + 999, kMiB + 500),
            "[##########..........] received 1.00 MiB of 2.00 MiB (50%), 1.00 MiB/s");
  EXPECT_EQ(at(4, 4 * kMiB + 999, 3 * kMiB),
            "[####################] received 2.00 MiB of 2.00 MiB (100%), 2.00 MiB/s");
}

TEST(TransferProgressTest, ALostConnectionIsNoNegativeRate) {
  TransferProgress progress("multiplying", 4 * kMiB, 2 * kMiB);
  progress.Describe(absl::Seconds(1), TcpTraffic{3 * kMiB, 0});
  EXPECT_EQ(progress.Describe(absl::Seconds(2), TcpTraffic{kMiB, 0}),
            "[#####...............] sent 1.00 MiB of 4.00 MiB (25%), 0 B/s");
}

TEST(TransferProgressTest, WithoutTcpThereIsTheTime) {
  TransferProgress progress("multiplying", 4 * kMiB, 2 * kMiB);
  EXPECT_EQ(progress.Describe(absl::Milliseconds(600), std::nullopt), "multiplying, 0s");
  EXPECT_EQ(progress.Describe(absl::Seconds(75), std::nullopt), "multiplying, 1m15s");
}

TEST(TcpTrafficTest, CountsWhatTheOtherSideHas) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int near = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(near, reinterpret_cast<sockaddr*>(&address), size), 0);
  const int far = accept(listener, nullptr, nullptr);
  const TcpTraffic before = TcpTrafficNow().value_or(TcpTraffic());
  std::string bytes(10000, 'x');
  ASSERT_EQ(write(near, bytes.data(), bytes.size()), 10000);
  ASSERT_EQ(recv(far, bytes.data(), bytes.size(), MSG_WAITALL), 10000);
  // Both ends are this process's, so that each byte is both sent and received.
  TcpTraffic after;
  for (int i = 0; i < 500 && after.sent_bytes < before.sent_bytes + 10000; ++i) {
    absl::SleepFor(absl::Milliseconds(10));  // an acknowledgement may be late
    after = TcpTrafficNow().value_or(TcpTraffic());
  }
  EXPECT_EQ(after.sent_bytes - before.sent_bytes, 10000u);
  EXPECT_EQ(after.received_bytes - before.received_bytes, 10000u);
  for (const int descriptor : {far, near, listener}) close(descriptor);
}

}  // namespace
}  // namespace gemm::cli
