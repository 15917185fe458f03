// MultiplyAsync: one callback, when the memory is the caller's again. To be run under the address
// sanitizer too: the callbacks free the operands.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"
#include "tests/client/freezable_peer.h"

namespace gemm {
namespace {

using testing::ConnectTo;
using testing::DetailedStatus;
using ::testing::ElementsAre;
using testing::FakeServer;
using testing::FreezablePeer;
using ::testing::HasSubstr;
using testing::StallingServer;

// Owns what a product of n x n matrices needs.
struct Square {
  explicit Square(int64_t size) : n(size), a(n * n, 1.0f), b(n * n, 2.0f), d(n * n, -1.0f) {}

  MultiplyArgs<float> args() {
    return {.m = n, .n = n, .k = n, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}};
  }

  int64_t n;
  std::vector<float> a, b, d;
};

// Begins a product whose callback frees its operands before it passes the outcome on.
PendingCall BeginAndFree(const Client& client, int64_t n,
                         absl::AnyInvocable<void(absl::Status)> over) {
  auto square = std::make_unique<Square>(n);
  const MultiplyArgs<float> args = square->args();
  return client.MultiplyAsync<float>(
      args, [square = std::move(square),
             over = std::move(over)](const absl::StatusOr<MultiplyReport>& report) mutable {
        square.reset();
        over(report.status());
      });
}

// The same, waiting for the end. `act` gets the call while it is under way.
absl::Status RunAndFree(const Client& client, int64_t n,
                        absl::FunctionRef<void(const PendingCall&)> act) {
  absl::Status result;
  absl::Notification over;
  const PendingCall call = BeginAndFree(client, n, [&](const absl::Status& status) {
    result = status;
    over.Notify();
  });
  act(call);
  over.WaitForNotification();
  return result;
}

void Leave(const PendingCall& /*call*/) {}

class AsyncTest : public ::testing::Test {
 protected:
  FakeServer server_;
  Client client_ = ConnectTo(server_.address());
};

TEST_F(AsyncTest, CallsBackOnAnotherThread) {
  Square square(2);
  absl::StatusOr<MultiplyReport> result;
  std::thread::id thread;
  absl::Notification over;
  client_.MultiplyAsync(square.args(), [&](absl::StatusOr<MultiplyReport> report) {
    result = std::move(report);
    thread = std::this_thread::get_id();
    over.Notify();
  });
  over.WaitForNotification();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->kernel, "fake_f32_1x1x1");
  EXPECT_EQ(result->attempts, 1);
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_THAT(square.d, ElementsAre(4, 4, 4, 4));
}

TEST_F(AsyncTest, MistakesAreCalledBackToo) {
  absl::Mutex mutex;  // held while the call begins: a callback within it would never return
  const auto begin = [&](const Client& client, const MultiplyArgs<float>& args) {
    absl::Status result;
    absl::Notification over;
    absl::ReleasableMutexLock lock(&mutex);
    client.MultiplyAsync(args, [&](const absl::StatusOr<MultiplyReport>& report) {
      absl::MutexLock in_callback(&mutex);
      result = report.status();
      over.Notify();
    });
    lock.Release();
    over.WaitForNotification();
    return result;
  };
  const absl::Status mistake = begin(client_, {.m = -1});
  EXPECT_TRUE(absl::IsInvalidArgument(mistake)) << mistake;
  EXPECT_EQ(GetErrorDetail(mistake)->field, "m");
  const Client small = ConnectTo(server_.address(), {.message_limit_bytes = 8});
  EXPECT_TRUE(absl::IsResourceExhausted(begin(small, Square(2).args())));
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(AsyncTest, ManyAtOnce) {
  constexpr int kCalls = 200;
  absl::BlockingCounter left(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    auto square = std::make_unique<Square>(1 + i % 7);
    const MultiplyArgs<float> args = square->args();
    client_.MultiplyAsync(
        args, [&, square = std::move(square)](const absl::StatusOr<MultiplyReport>& report) {
          EXPECT_TRUE(report.ok()) << report.status();
          EXPECT_EQ(square->d.back(), 2.0f * static_cast<float>(square->n));
          left.DecrementCount();
        });
  }
  left.Wait();
  EXPECT_EQ(server_.calls(), kCalls);
}

TEST_F(AsyncTest, ACallbackMayBeginTheNextCall) {
  Square square(2);
  int rounds = 0;
  absl::Notification over;
  std::function<void(const absl::StatusOr<MultiplyReport>&)> next =
      [&](const absl::StatusOr<MultiplyReport>& report) {
        EXPECT_TRUE(report.ok()) << report.status();
        if (++rounds == 20) return over.Notify();
        client_.MultiplyAsync(square.args(), next);
      };
  client_.MultiplyAsync(square.args(), next);
  over.WaitForNotification();
  EXPECT_EQ(rounds, 20);
}

TEST_F(AsyncTest, RetriesAreNotSeen) {
  const grpc::Status full =
      DetailedStatus(grpc::StatusCode::UNAVAILABLE, "full", "QUEUE_FULL", "", 50);
  server_.FailNext({full, full});
  EXPECT_TRUE(RunAndFree(client_, 4, Leave).ok());
  EXPECT_EQ(server_.calls(), 3);
}

TEST_F(AsyncTest, TheClientsEndWaitsForCallbacks) {
  bool called = false;
  {
    const Client client = ConnectTo(server_.address());
    BeginAndFree(client, 64, [&](const absl::Status& status) {
      absl::SleepFor(absl::Milliseconds(50));
      EXPECT_TRUE(status.ok()) << status;
      called = true;
    });
  }
  EXPECT_TRUE(called);
}

TEST_F(AsyncTest, CancelEndsTheWaitForTheNextAttempt) {
  server_.FailNext(
      {DetailedStatus(grpc::StatusCode::UNAVAILABLE, "full", "QUEUE_FULL", "", 20'000)});
  const absl::Time start = absl::Now();
  const absl::Status status = RunAndFree(client_, 4, [&](const PendingCall& call) {
    while (server_.calls() == 0) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(50));
    call.Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_EQ(server_.calls(), 1);
}

TEST_F(AsyncTest, CancelAtAnyTime) {
  PendingCall().Cancel();
  PendingCall last;
  for (int i = 0; i < 100; ++i) {
    const absl::Status status = RunAndFree(client_, 64, [&](const PendingCall& call) {
      absl::SleepFor(absl::Microseconds(20 * i));
      call.Cancel();
      last = call;
    });
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  last.Cancel();
  client_ = ConnectTo(server_.address());
  last.Cancel();  // the call's Client is gone
  EXPECT_TRUE(RunAndFree(client_, 4, Leave).ok());
}

TEST(AsyncMemoryTest, CancelledMidUpload) {
  const StallingServer server;
  const Client client = ConnectTo(server.address());
  for (int i = 0; i < 5; ++i) {
    const absl::Time start = absl::Now();
    const absl::Status status = RunAndFree(client, 2048, [](const PendingCall& call) {
      absl::SleepFor(absl::Milliseconds(100));
      call.Cancel();
    });
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cancelled"));
    EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  }
}

TEST(AsyncMemoryTest, DeadlineMidUpload) {
  const StallingServer server;
  const Client client = ConnectTo(server.address(), {.timeout = absl::Milliseconds(200)});
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = RunAndFree(client, 2048, Leave);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
}

TEST(AsyncMemoryTest, RefusedMidUpload) {
  const StallingServer server(
      DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", "MEMORY_TOO_SMALL", "", 0));
  const Client client = ConnectTo(server.address());
  constexpr int kCalls = 20;
  absl::BlockingCounter left(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    BeginAndFree(client, 1024, [&](const absl::Status& status) {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      left.DecrementCount();
    });
  }
  left.Wait();
}

TEST(AsyncMemoryTest, PeerThatStopsReading) {
  FreezablePeer peer;
  ASSERT_TRUE(peer.client().GetServerInfo().ok());
  peer.Freeze();
  EXPECT_FALSE(RunAndFree(peer.client(), 2048, Leave).ok());
}

}  // namespace
}  // namespace gemm
