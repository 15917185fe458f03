#include "client/cpp/internal/polled_queue.h"

#include <grpcpp/alarm.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/time/clock.h"

namespace gemm::client {
namespace {

TEST(PolledQueueTest, RunsStepsOnTheThreadThatWaits) {
  PolledQueue queue;
  std::thread::id thread;
  int steps = 0;
  grpc::Alarm first;
  grpc::Alarm second;
  first.Set(queue.queue(), absl::ToChronoTime(absl::Now()), queue.Tag([&] {
    thread = std::this_thread::get_id();
    ++steps;
    second.Set(queue.queue(), absl::ToChronoTime(absl::Now()), queue.Tag([&] { ++steps; }));
  }));
  queue.RunUntil([&] { return steps == 2; });
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST(PolledQueueTest, EndsWhenAnotherThreadSaysSo) {
  PolledQueue queue;
  std::atomic<bool> over = false;
  std::thread other([&over] {
    absl::SleepFor(absl::Milliseconds(20));
    over = true;
  });
  queue.RunUntil([&over] { return over.load(); });
  EXPECT_TRUE(over);
  other.join();
}

TEST(PolledQueueTest, KnowsWhetherSomebodyWaits) {
  EXPECT_FALSE(PolledQueue::SomebodyWaits());
  PolledQueue queue;
  EXPECT_FALSE(PolledQueue::SomebodyWaits());
  grpc::Alarm alarm;
  bool over = false;
  bool waits_in_a_step = true;
  alarm.Set(queue.queue(), absl::ToChronoTime(absl::InfiniteFuture()), queue.Tag([&] {
    waits_in_a_step = PolledQueue::SomebodyWaits();
    over = true;
  }));
  std::thread other([&] { queue.RunUntil([&over] { return over; }); });
  while (!PolledQueue::SomebodyWaits()) std::this_thread::yield();
  const PolledQueue beside;  // comes back, although the other one waits on
  EXPECT_TRUE(PolledQueue::SomebodyWaits());
  alarm.Cancel();
  other.join();
  EXPECT_FALSE(waits_in_a_step);
  EXPECT_FALSE(PolledQueue::SomebodyWaits());
}

TEST(PolledQueueTest, CatchesUpWithoutWaiting) {
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < 100; ++i) {
    const absl::Time start = absl::Now();
    const PolledQueue queue;
    best = std::min(best, absl::Now() - start);
  }
  EXPECT_LT(best, absl::Microseconds(500));  // gRPC's shortest wait is a millisecond
}

}  // namespace
}  // namespace gemm::client
