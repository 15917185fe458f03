#include "server/engine/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "server/reason.h"

namespace gemm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class JobQueueTest : public testing::Test {
 protected:
  // The job's m is its name.
  std::unique_ptr<Job> MakeJob(int64_t m, std::string caller = "", int64_t size = 1) {
    auto job = std::make_unique<Job>();
    job->problem = DenseProblem(DType::kF32, m, size, size);
    job->caller = std::move(caller);
    job->cancel = std::make_shared<CancelToken>();
    return job;
  }
  std::unique_ptr<Job> MakeLarge(int64_t m, std::string caller = "") {
    return MakeJob(m, std::move(caller), 30'000);
  }

  void Push(std::unique_ptr<Job> job) { ASSERT_TRUE(queue_.Push(job).ok()); }

  static std::vector<int64_t> Names(const std::vector<std::unique_ptr<Job>>& jobs) {
    std::vector<int64_t> names;
    names.reserve(jobs.size());
    for (const auto& job : jobs) names.push_back(job->problem.m);
    return names;
  }
  std::vector<int64_t> Pop(LaneKind lane = LaneKind::kAny) { return Names(queue_.PopBatch(lane)); }

  PageableMemory memory_;
  std::shared_ptr<HostPool> pool_ = HostPool::Create(memory_, 1 << 20);
  JobQueue queue_{{.problems = 10, .bytes = 1000}};
};

TEST_F(JobQueueTest, OneCallersSmallJobsLeaveTogetherAndInOrder) {
  for (int64_t m = 1; m <= 3; ++m) Push(MakeJob(m));
  EXPECT_THAT(Pop(LaneKind::kSmall), ElementsAre(1, 2, 3));
  EXPECT_EQ(queue_.problems(), 0u);
}

TEST_F(JobQueueTest, ABatchIsBoundedByTimeNotByCount) {
  JobQueue queue({.small_job_seconds = 1, .batch_seconds = 2.5 * EstimatedSeconds(*MakeJob(1))});
  for (int i = 0; i < 5; ++i) {
    auto job = MakeJob(1);
    ASSERT_TRUE(queue.Push(job).ok());
  }
  EXPECT_EQ(queue.PopBatch(LaneKind::kSmall).size(), 2u);
  EXPECT_EQ(queue.PopBatch(LaneKind::kSmall).size(), 2u);
  EXPECT_EQ(queue.PopBatch(LaneKind::kSmall).size(), 1u);
}

TEST_F(JobQueueTest, LargeJobsLeaveAloneAndNotThroughSmallLanes) {
  Push(MakeLarge(101));
  Push(MakeLarge(102));
  Push(MakeJob(1));
  EXPECT_THAT(Pop(LaneKind::kSmall), ElementsAre(1));
  EXPECT_THAT(Pop(), ElementsAre(101));
  EXPECT_THAT(Pop(), ElementsAre(102));
}

TEST_F(JobQueueTest, CallersGetEqualSharesWhateverTheySend) {
  for (int64_t m = 101; m <= 104; ++m) Push(MakeLarge(m, "greedy"));
  Push(MakeLarge(201, "modest"));
  EXPECT_THAT(Pop(), ElementsAre(101));
  EXPECT_THAT(Pop(), ElementsAre(201));  // not behind all of the other's
  EXPECT_THAT(Pop(), ElementsAre(102));
}

TEST_F(JobQueueTest, AnIdleCallerSavesUpNothing) {
  for (int64_t m = 101; m <= 103; ++m) Push(MakeLarge(m, "busy"));
  EXPECT_THAT(Pop(), ElementsAre(101));
  EXPECT_THAT(Pop(), ElementsAre(102));
  for (int64_t m = 201; m <= 203; ++m) Push(MakeLarge(m, "late"));
  EXPECT_THAT(Pop(), ElementsAre(201));
  EXPECT_THAT(Pop(), ElementsAre(103));
  EXPECT_THAT(Pop(), ElementsAre(202));
}

TEST_F(JobQueueTest, ARemovedJobIsNotChargedToItsCaller) {
  auto given_up = MakeLarge(101, "a");
  const std::shared_ptr<CancelToken> token = given_up->cancel;
  Push(std::move(given_up));
  Push(MakeLarge(102, "a"));
  Push(MakeLarge(201, "b"));
  Push(MakeLarge(202, "b"));
  Push(MakeLarge(203, "b"));
  ASSERT_NE(queue_.Remove(token.get()), nullptr);
  Push(MakeLarge(103, "a"));
  // As if 101 had never come.
  for (int64_t m : {201, 102, 103, 202}) EXPECT_THAT(Pop(), ElementsAre(m));
}

TEST_F(JobQueueTest, ACallerWhoseJobsAllTimeOutKeepsItsTurn) {
  for (int i = 0; i < 100; ++i) {
    auto late = MakeLarge(300, "impatient");
    const std::shared_ptr<CancelToken> token = late->cancel;
    Push(std::move(late));
    ASSERT_NE(queue_.Remove(token.get()), nullptr);
  }
  for (int64_t m = 201; m <= 203; ++m) Push(MakeLarge(m, "other"));
  Push(MakeLarge(101, "impatient"));
  EXPECT_THAT(Pop(), ElementsAre(201));
  EXPECT_THAT(Pop(), ElementsAre(101));
}

TEST_F(JobQueueTest, WhatACallerTookWhileNobodyWaitedIsForgotten) {
  Push(MakeJob(101, "first", 90'000));
  EXPECT_THAT(Pop(), ElementsAre(101));
  EXPECT_THAT(queue_.PopBatch(LaneKind::kAny, [] { return true; }), IsEmpty());  // finds nothing
  for (int64_t m = 201; m <= 203; ++m) Push(MakeLarge(m, "second"));
  Push(MakeLarge(102, "first"));
  EXPECT_THAT(Pop(), ElementsAre(201));
  EXPECT_THAT(Pop(), ElementsAre(102));
}

TEST_F(JobQueueTest, ALaneThatLeavesTakesNothingAndPassesTheJobOn) {
  std::atomic<bool> leave{false};
  std::thread leaver([&] {
    EXPECT_THAT(Names(queue_.PopBatch(LaneKind::kSmall, [&] { return leave.load(); })), IsEmpty());
  });
  std::thread other([&] { EXPECT_THAT(Pop(), ElementsAre(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // both wait
  leave = true;
  Push(MakeJob(1));  // wakes the small lane
  other.join();
  leaver.join();
}

TEST_F(JobQueueTest, BoundsProblems) {
  for (int64_t m = 1; m <= 10; ++m) Push(MakeJob(m));
  auto job = MakeJob(11);
  EXPECT_EQ(ReasonOf(queue_.Push(job)), Reason::kQueueFull);
  EXPECT_NE(job, nullptr);  // still the caller's
}

TEST_F(JobQueueTest, BoundsBytesButTakesOneLargeJobAlone) {
  auto large = MakeJob(1);
  large->input = *pool_->Allocate(5000);
  Push(std::move(large));
  auto small = MakeJob(2);
  small->input = *pool_->Allocate(1);
  EXPECT_EQ(ReasonOf(queue_.Push(small)), Reason::kQueueFull);
  EXPECT_NE(small, nullptr);
  EXPECT_EQ(queue_.bytes(), 5000u);
  EXPECT_THAT(Pop(), ElementsAre(1));
  EXPECT_EQ(queue_.bytes(), 0u);
  EXPECT_TRUE(queue_.Push(small).ok());
}

TEST_F(JobQueueTest, RemoveTakesAJobOutWhereverItStands) {
  auto second = MakeJob(2);
  auto large = MakeLarge(101);
  const std::shared_ptr<CancelToken> tokens[] = {second->cancel, large->cancel};
  Push(MakeJob(1));
  Push(std::move(second));
  Push(std::move(large));
  for (const auto& token : tokens) EXPECT_NE(queue_.Remove(token.get()), nullptr);
  for (const auto& token : tokens) EXPECT_EQ(queue_.Remove(token.get()), nullptr);
  EXPECT_THAT(Pop(), ElementsAre(1));
}

TEST_F(JobQueueTest, CloseHandsOutTheRestThenNothing) {
  Push(MakeJob(1));
  Push(MakeLarge(101));
  queue_.Close();
  auto late = MakeJob(2);
  EXPECT_EQ(ReasonOf(queue_.Push(late)), Reason::kDraining);
  EXPECT_THAT(Pop(LaneKind::kSmall), ElementsAre(1));
  EXPECT_THAT(Pop(LaneKind::kSmall), IsEmpty());
  EXPECT_THAT(Pop(), ElementsAre(101));
  EXPECT_THAT(Pop(), IsEmpty());
}

TEST_F(JobQueueTest, WakesWhoWaits) {
  for (const LaneKind lane : {LaneKind::kSmall, LaneKind::kAny}) {
    std::thread consumer([&] { EXPECT_THAT(Pop(lane), ElementsAre(1)); });
    Push(MakeJob(1));
    consumer.join();
  }
  std::thread small([&] { EXPECT_THAT(Pop(LaneKind::kSmall), IsEmpty()); });
  std::thread any([&] { EXPECT_THAT(Pop(), IsEmpty()); });
  queue_.Close();
  small.join();
  any.join();
}

TEST_F(JobQueueTest, EveryJobComesOutOnceWithLanesOfBothKinds) {
  JobQueue queue({});
  std::vector<std::thread> lanes;
  std::atomic<int> out{0};
  for (const LaneKind lane : {LaneKind::kSmall, LaneKind::kSmall, LaneKind::kAny, LaneKind::kAny}) {
    lanes.emplace_back([&queue, &out, lane] {
      while (true) {
        const auto jobs = queue.PopBatch(lane);
        if (jobs.empty()) return;
        out += static_cast<int>(jobs.size());
      }
    });
  }
  constexpr int kJobs = 3000;
  for (int i = 0; i < kJobs; ++i) {
    auto job = i % 10 == 0 ? MakeLarge(i + 1, "a") : MakeJob(i + 1, i % 2 == 0 ? "a" : "b");
    while (!queue.Push(job).ok()) std::this_thread::yield();
  }
  while (queue.problems() > 0) std::this_thread::yield();
  queue.Close();
  for (std::thread& lane : lanes) lane.join();
  EXPECT_EQ(out, kJobs);
}

}  // namespace
}  // namespace gemm
