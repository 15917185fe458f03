#include "server/engine/job_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "server/reason.h"

namespace gemm {
namespace {

std::unique_ptr<Job> JobHolding(HostPool& pool, size_t bytes) {
  auto job = std::make_unique<Job>();
  job->input = *pool.Allocate(bytes);
  return job;
}

TEST(JobQueueTest, IsFirstInFirstOut) {
  JobQueue queue({});
  for (int64_t m = 1; m <= 3; ++m) {
    auto job = std::make_unique<Job>();
    job->problem.m = m;
    ASSERT_TRUE(queue.Push(job).ok());
    EXPECT_EQ(job, nullptr);
  }
  for (int64_t m = 1; m <= 3; ++m) EXPECT_EQ(queue.Pop()->problem.m, m);
}

TEST(JobQueueTest, BoundsBytesButTakesOneLargeJobAlone) {
  PageableMemory memory;
  auto pool = HostPool::Create(memory, 1 << 20);
  JobQueue queue({.problems = 10, .bytes = 1000});
  auto large = JobHolding(*pool, 5000);
  ASSERT_TRUE(queue.Push(large).ok());
  auto small = JobHolding(*pool, 1);
  const absl::Status status = queue.Push(small);
  EXPECT_EQ(ReasonOf(status), Reason::kQueueFull);
  EXPECT_NE(small, nullptr);  // still the caller's
  EXPECT_EQ(queue.bytes(), 5000u);
  queue.Pop();
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_TRUE(queue.Push(small).ok());
}

TEST(JobQueueTest, CloseHandsOutTheRestThenNull) {
  JobQueue queue({});
  auto job = std::make_unique<Job>();
  ASSERT_TRUE(queue.Push(job).ok());
  queue.Close();
  auto late = std::make_unique<Job>();
  EXPECT_EQ(ReasonOf(queue.Push(late)), Reason::kDraining);
  EXPECT_NE(queue.Pop(), nullptr);
  EXPECT_EQ(queue.Pop(), nullptr);
}

TEST(JobQueueTest, CloseWakesWhoWaits) {
  JobQueue queue({});
  std::thread consumer([&queue] { EXPECT_EQ(queue.Pop(), nullptr); });
  queue.Close();
  consumer.join();
}

}  // namespace
}  // namespace gemm
