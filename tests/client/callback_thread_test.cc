#include "client/cpp/internal/callback_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace gemm::client {
namespace {

using ::testing::ElementsAre;

TEST(CallbackThreadTest, RunsTasksInOrder) {
  std::vector<int> order;
  {
    CallbackThread thread;
    for (int i = 0; i < 3; ++i) thread.Announce();
    for (int i = 0; i < 3; ++i) thread.Post([&order, i] { order.push_back(i); });
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(CallbackThreadTest, ItsEndWaitsForWhatWasAnnounced) {
  bool ran = false;
  auto thread = std::make_unique<CallbackThread>();
  thread->Announce();
  std::thread poster([&ran, thread = thread.get()] {
    absl::SleepFor(absl::Milliseconds(50));
    thread->Post([&ran] { ran = true; });
  });
  thread.reset();
  EXPECT_TRUE(ran);
  poster.join();
}

TEST(CallbackThreadTest, ATaskMayBringTheNext) {
  int runs = 0;
  {
    CallbackThread thread;
    thread.Announce();
    thread.Post([&] {
      ++runs;
      thread.Announce();
      thread.Post([&] { ++runs; });
    });
  }
  EXPECT_EQ(runs, 2);
}

TEST(CallbackThreadTest, WithoutTasksThereIsNoThread) { CallbackThread thread; }

}  // namespace
}  // namespace gemm::client
