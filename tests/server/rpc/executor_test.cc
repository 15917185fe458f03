#include "server/rpc/executor.h"

#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace gemm
