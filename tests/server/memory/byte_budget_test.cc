#include "server/memory/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace gemm {
namespace {

using std::chrono::milliseconds;

void WaitUntil(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::sleep_for(milliseconds(1));
}

TEST(ByteBudgetTest, CountsWhatIsTaken) {
  ByteBudget budget(100);
  {
    const TakenBytes some(budget, 30);
    const TakenBytes rest(budget, 70);
    EXPECT_EQ(budget.used_bytes(), 100u);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(budget.limit_bytes(), 100u);
}

TEST(ByteBudgetTest, WhatDoesNotFitWaits) {
  ByteBudget budget(100);
  budget.Take(60);
  std::atomic<bool> taken{false};
  std::thread waiter([&] {
    budget.Take(50);
    taken = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(taken);
  budget.Give(60);
  WaitUntil(taken);
  EXPECT_EQ(budget.used_bytes(), 50u);
  budget.Give(50);
  waiter.join();
}

TEST(ByteBudgetTest, NobodyOvertakesAThreadThatWaitsForMuch) {
  ByteBudget budget(100);
  budget.Take(60);
  std::atomic<bool> much_waits{false};
  std::atomic<bool> much{false};
  std::atomic<bool> little{false};
  std::thread first([&] {
    much_waits = true;
    budget.Take(100);
    much = true;
  });
  WaitUntil(much_waits);
  std::this_thread::sleep_for(milliseconds(20));
  std::thread second([&] {
    budget.Take(1);
    little = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(little);  // although it would fit
  budget.Give(60);
  WaitUntil(much);
  EXPECT_FALSE(little);
  budget.Give(100);
  WaitUntil(little);
  first.join();
  second.join();
}

TEST(ByteBudgetTest, NeverGivesOutMoreThanItHas) {
  ByteBudget budget(1000);
  std::atomic<int64_t> out{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int bytes = 1 + (i * 37 + t * 211) % 999;
        const TakenBytes taken(budget, static_cast<uint64_t>(bytes));
        if (out.fetch_add(bytes) + bytes > 1000) over = true;
        out -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace gemm
