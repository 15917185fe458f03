// What was put is freed as soon as the call has returned. To be run under the address sanitizer
// too.

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"
#include "tests/client/freezable_peer.h"

namespace gemm {
namespace {

using testing::ConnectTo;
using testing::DetailedStatus;
using testing::FakeServer;
using testing::FreezablePeer;
using testing::StallingServer;

// `bytes` in rows of 64 KiB.
absl::Status PutAndFree(const Client& client, int64_t bytes) {
  constexpr int64_t kRow = 16 << 10;
  const std::vector<float> values(bytes / sizeof(float), 1.5f);
  return client
      .Put<float>({.name = "w", .rows = bytes / (kRow * 4), .columns = kRow, .data = values})
      .status();
}

absl::Status WriteAndFree(const Client& client, int64_t bytes) {
  const std::vector<float> values(bytes / sizeof(float), 1.5f);
  return client.WriteRows<float>({.name = "w"}, values).status();
}

TEST(MatrixMemoryTest, DeadlineMidUpload) {
  const StallingServer server;
  const Client client = ConnectTo(server.address(), {.timeout = absl::Milliseconds(200)});
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = WriteAndFree(client, 16 << 20);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
}

TEST(MatrixMemoryTest, RefusedMidUpload) {
  const StallingServer server(
      DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", "MEMORY_TOO_SMALL", "", 0));
  const Client client = ConnectTo(server.address());
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = WriteAndFree(client, 8 << 20);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  }
}

TEST(MatrixMemoryTest, PanelsRefusedWhileOthersAreUnderWay) {
  FakeServer server;
  const Client client = ConnectTo(server.address(), {.channels = 4});
  for (int i = 0; i < 5; ++i) {
    for (int call = 1; call <= 4; ++call) {
      server.OnCall("WriteRows", call, [call] {
        if (call == 2) return grpc::Status(grpc::StatusCode::INTERNAL, "the device failed");
        absl::SleepFor(absl::Milliseconds(20));
        return grpc::Status::OK;
      });
    }
    EXPECT_FALSE(PutAndFree(client, 80 << 20).ok());
    ASSERT_TRUE(client.DeleteMatrix("w").ok());
    for (int call = 1; call <= 4; ++call) {
      server.OnCall("WriteRows", call, [] { return grpc::Status::OK; });
    }
  }
}

TEST(MatrixMemoryTest, CancelledWhileItBlocks) {
  const StallingServer server;
  const Client client = ConnectTo(server.address());
  const absl::Time start = absl::Now();
  std::thread canceller([&client] {
    absl::SleepFor(absl::Milliseconds(200));
    client.CancelCalls();
  });
  const absl::Status status = WriteAndFree(client, 16 << 20);
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(MatrixMemoryTest, APutThatIsCancelledBeginsNoOtherPanel) {
  FakeServer server;
  const Client client = ConnectTo(server.address(), {.channels = 1});
  server.OnCall("WriteRows", 2, [&client] {
    client.CancelCalls();
    return grpc::Status::OK;
  });
  const absl::Status status = PutAndFree(client, 80 << 20);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LE(server.panels("w").size(), 2u);
  EXPECT_TRUE(client.GetServerInfo().ok());  // later calls are not concerned
}

TEST(MatrixMemoryTest, PeerThatStopsReading) {
  FreezablePeer peer;
  ASSERT_TRUE(peer.client().GetServerInfo().ok());
  peer.Freeze();
  EXPECT_FALSE(WriteAndFree(peer.client(), 16 << 20).ok());
}

}  // namespace
}  // namespace gemm
