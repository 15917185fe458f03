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
    job->products.emplace_back().problem = DenseProblem(DType::kF32, m, size, size);
    job->caller = std::move(caller);
    job->cancel = std::make_shared<CancelToken>();
    return job;
  }
  std::unique_ptr<Job> MakeLarge(int64_t m, std::string caller = "") {
    return MakeJob(m, std::move(caller), 30'000);
  }

  // As the engine does.
  static absl::Status PushTo(JobQueue& queue, std::unique_ptr<Job>& job) {
    job->cost = CostOf(*job);
    return queue.Push(job);
  }
  void Push(std::unique_ptr<Job> job) { ASSERT_TRUE(PushTo(queue_, job).ok()); }

  static std::vector<int64_t> Names(const std::vector<std::unique_ptr<Job>>& jobs) {
    std::vector<int64_t> names;
    names.reserve(jobs.size());
    for (const auto& job : jobs) names.push_back(job->products.front().problem.m);
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
  JobQueue queue({.small_job_seconds = 1, .batch_seconds = 2.5 * CostOf(*MakeJob(1)).seconds});
  for (int i = 0; i < 5; ++i) {
    auto job = MakeJob(1);
    ASSERT_TRUE(PushTo(queue, job).ok());
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
  EXPECT_THAT(queue_.PopBatch(LaneKind::kAny, 0, [] { return true; }), IsEmpty());  // finds nothing
  for (int64_t m = 201; m <= 203; ++m) Push(MakeLarge(m, "second"));
  Push(MakeLarge(102, "first"));
  EXPECT_THAT(Pop(), ElementsAre(201));
  EXPECT_THAT(Pop(), ElementsAre(102));
}

TEST_F(JobQueueTest, ALaneThatLeavesTakesNothingAndPassesTheJobOn) {
  std::atomic<bool> leave{false};
  std::thread leaver([&] {
    EXPECT_THAT(Names(queue_.PopBatch(LaneKind::kSmall, 0, [&] { return leave.load(); })),
                IsEmpty());
  });
  std::thread other([&] { EXPECT_THAT(Pop(), ElementsAre(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // both wait
  leave = true;
  Push(MakeJob(1));  // wakes the small lane
  other.join();
  leaver.join();
}

TEST_F(JobQueueTest, ABoundJobWaitsForItsDeviceAndOthersPassItBy) {
  const auto bound = [](std::unique_ptr<Job> job, int device) {
    job->device = device;
    return job;
  };
  Push(bound(MakeLarge(101, "first"), 1));
  Push(bound(MakeJob(1, "first"), 1));
  Push(MakeJob(2, "second"));
  Push(bound(MakeJob(3, "second"), 0));
  Push(MakeLarge(102, "third"));
  Push(bound(MakeJob(4, "third"), 1));
  const auto pop = [&](LaneKind lane, int device) { return Names(queue_.PopBatch(lane, device)); };
  EXPECT_THAT(pop(LaneKind::kAny, 0), ElementsAre(102));
  EXPECT_THAT(pop(LaneKind::kAny, 0), ElementsAre(2, 3));
  EXPECT_THAT(pop(LaneKind::kSmall, 1), ElementsAre(1, 4));
  EXPECT_THAT(pop(LaneKind::kAny, 1), ElementsAre(101));
}

TEST_F(JobQueueTest, ABoundJobWakesALaneOfItsDevice) {
  std::vector<std::thread> others;
  others.reserve(3);
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] { queue_.PopBatch(LaneKind::kAny, /*device=*/0); });
  }
  std::thread lane(
      [&] { EXPECT_THAT(Names(queue_.PopBatch(LaneKind::kAny, /*device=*/1)), ElementsAre(7)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all wait
  auto job = MakeJob(7);
  job->device = 1;
  Push(std::move(job));
  lane.join();
  queue_.Close();
  for (std::thread& other : others) other.join();
}

TEST_F(JobQueueTest, ALostDeviceGivesItsJobsBackAndGetsNoMore) {
  const auto bound = [this](int64_t m, int device) {
    auto job = MakeJob(m);
    job->device = device;
    return job;
  };
  Push(bound(1, 0));
  Push(bound(2, 1));
  Push(MakeJob(3));
  EXPECT_THAT(Names(queue_.Lose(1)), ElementsAre(2));
  auto late = bound(4, 1);
  EXPECT_EQ(ReasonOf(queue_.Push(late)), Reason::kDeviceLost);
  EXPECT_NE(late, nullptr);
  EXPECT_THAT(Names(queue_.PopBatch(LaneKind::kAny, 0)), ElementsAre(1, 3));
  EXPECT_EQ(queue_.problems(), 0u);
}

TEST_F(JobQueueTest, BoundsProblems) {
  for (int64_t m = 1; m <= 10; ++m) Push(MakeJob(m));
  auto job = MakeJob(11);
  EXPECT_EQ(ReasonOf(PushTo(queue_, job)), Reason::kQueueFull);
  EXPECT_NE(job, nullptr);  // still the caller's
}

TEST_F(JobQueueTest, CountsTheProductsOfAJobThatNeedADevice) {
  auto many = MakeJob(1);
  for (int i = 0; i < 7; ++i) many->products.push_back(many->products.front());
  many->products[3].problem.m = 0;
  many->products[5].status = ErrorWithReason(Reason::kInvalidRequest, "refused before");
  Push(std::move(many));
  EXPECT_EQ(queue_.problems(), 6u);
  auto five = MakeJob(2);
  for (int i = 0; i < 4; ++i) five->products.push_back(five->products.front());
  EXPECT_EQ(ReasonOf(PushTo(queue_, five)), Reason::kQueueFull);
  five->products.pop_back();
  EXPECT_TRUE(PushTo(queue_, five).ok());
  EXPECT_EQ(queue_.problems(), 10u);
  Pop();
  EXPECT_EQ(queue_.problems(), 0u);
}

TEST_F(JobQueueTest, AJobOfMoreProductsThanTheLimitIsTakenAlone) {
  auto many = MakeJob(1);
  for (int i = 0; i < 30; ++i) many->products.push_back(many->products.front());
  Push(std::move(many));
  auto one = MakeJob(2);
  EXPECT_EQ(ReasonOf(PushTo(queue_, one)), Reason::kQueueFull);
}

TEST_F(JobQueueTest, BoundsFlopsButTakesOneLargeJobAlone) {
  JobQueue queue({.flops = 1e12});
  auto first = MakeLarge(1000);  // 1.8e12
  ASSERT_TRUE(PushTo(queue, first).ok());
  auto second = MakeJob(1);
  const absl::Status full = PushTo(queue, second);
  EXPECT_EQ(ReasonOf(full), Reason::kQueueFull);
  EXPECT_THAT(std::string(full.message()), testing::HasSubstr("--queue-flops"));
  EXPECT_GT(queue.flops(), 1e12);
  EXPECT_THAT(Names(queue.PopBatch(LaneKind::kAny)), ElementsAre(1000));
  EXPECT_EQ(queue.flops(), 0);
  EXPECT_TRUE(PushTo(queue, second).ok());
}

TEST_F(JobQueueTest, ManySmallProductsInOneJobAreALargeJob) {
  auto many = MakeJob(1);
  for (int i = 0; i < 1000; ++i) many->products.push_back(many->products.front());
  Push(std::move(many));
  auto job = MakeJob(2);
  ASSERT_FALSE(PushTo(queue_, job).ok());
  queue_.Close();
  EXPECT_THAT(Pop(LaneKind::kSmall), IsEmpty());
  EXPECT_THAT(Pop(), ElementsAre(1));
}

TEST_F(JobQueueTest, BoundsBytesButTakesOneLargeJobAlone) {
  auto large = MakeJob(1);
  large->input = *pool_->Allocate(5000);
  Push(std::move(large));
  auto small = MakeJob(2);
  small->input = *pool_->Allocate(1);
  EXPECT_EQ(ReasonOf(PushTo(queue_, small)), Reason::kQueueFull);
  EXPECT_NE(small, nullptr);
  EXPECT_EQ(queue_.bytes(), 5000u);
  EXPECT_THAT(Pop(), ElementsAre(1));
  EXPECT_EQ(queue_.bytes(), 0u);
  EXPECT_TRUE(PushTo(queue_, small).ok());
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
  EXPECT_EQ(ReasonOf(PushTo(queue_, late)), Reason::kDraining);
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
    while (!PushTo(queue, job).ok()) std::this_thread::yield();
  }
  while (queue.problems() > 0) std::this_thread::yield();
  queue.Close();
  for (std::thread& lane : lanes) lane.join();
  EXPECT_EQ(out, kJobs);
}

}  // namespace
}  // namespace gemm
