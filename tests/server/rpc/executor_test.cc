#include "server/rpc/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace gemm {
namespace {

TEST(ExecutorTest, RunsInOrderOnOneThread) {
  std::vector<int> seen;
  {
    Executor executor(1);
    for (int i = 0; i < 100; ++i) executor.Post([&seen, i] { seen.push_back(i); });
  }
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(ExecutorTest, RunsWhatTasksPostBeforeItEnds) {
  std::atomic<int> count{0};
  {
    Executor executor(3);
    for (int i = 0; i < 50; ++i) {
      executor.Post([&] {
        ++count;
        executor.Post([&] { ++count; });
      });
    }
    while (count < 100) std::this_thread::yield();
  }
  EXPECT_EQ(count, 100);
}

TEST(ExecutorTest, RunsEachPartOnce) {
  Executor executor(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> times(1 + round % 9);
    executor.RunInParts(static_cast<int>(times.size()), [&times](int i) { ++times[i]; });
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  }
}

TEST(ExecutorTest, RunsPartsOnThreadsThatHaveNothingToDo) {
  Executor executor(2);
  std::atomic<bool> met{false};
  while (!met) {  // until both of its threads wait for something to do
    std::atomic<int> running{0};
    executor.RunInParts(3, [&](int) {
      if (++running == 3) met = true;
      const absl::Time end = absl::Now() + absl::Milliseconds(50);
      while (!met && absl::Now() < end) std::this_thread::yield();
      --running;
    });
  }
}

TEST(ExecutorTest, RunsPartsAloneWhileItsThreadsAreBusy) {
  std::atomic<bool> done{false};
  Executor executor(1);
  executor.Post([&] {
    const std::thread::id thread = std::this_thread::get_id();
    executor.RunInParts(4, [&thread](int) { EXPECT_EQ(std::this_thread::get_id(), thread); });
    done = true;
  });
  while (!done) std::this_thread::yield();
}

}  // namespace
}  // namespace gemm
