#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/reason.h"
#include "tests/server/engine/engine_fixture.h"

namespace gemm {
namespace {

TEST_F(EngineTest, RunsAJobAndReports) {
  AddDevice();
  Start();
  const Outcome outcome = Submit(MakeJob()).get();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.job->products.front().report.kernel, "puppet");
  EXPECT_EQ(observer_.finished, 1);
}

TEST_F(EngineTest, AnEmptyResultNeedsNoDevice) {
  PuppetDevice& device = AddDevice();
  Start();
  auto job = MakeJob();
  job->products.front().problem = DenseProblem(DType::kF32, 0, 5, 7);
  EXPECT_TRUE(Submit(std::move(job)).get().status.ok());
  EXPECT_EQ(device.runs(), 0);
}

TEST_F(EngineTest, TheProductsOfAJobGoTogetherAndEndEachByItself) {
  PuppetDevice& device = AddDevice();
  device.on_run = [](Job& job) {
    job.products[2].status = ErrorWithReason(Reason::kMemoryFull, "no room");
    return absl::OkStatus();
  };
  Start();
  auto job = MakeJob();
  for (int i = 0; i < 4; ++i) job->products.push_back(job->products.front());
  job->products[1].problem.m = 0;
  job->products[3].status = ErrorWithReason(Reason::kInvalidRequest, "refused before");
  const Outcome outcome = Submit(std::move(job)).get();
  ASSERT_EQ(outcome.job->products.size(), 5u);
  const auto& products = outcome.job->products;
  EXPECT_TRUE(products[0].status.ok() && products[4].status.ok());
  EXPECT_TRUE(products[1].status.ok());
  EXPECT_EQ(ReasonOf(products[2].status), Reason::kMemoryFull);
  EXPECT_EQ(ReasonOf(products[3].status), Reason::kInvalidRequest);
  EXPECT_EQ(products[4].report.kernel, "puppet");
  EXPECT_EQ(products[1].report.kernel, "");  // empty: not the device's
  EXPECT_EQ(products[3].report.kernel, "");
  EXPECT_EQ(outcome.job->batch_problems, 3u);
  EXPECT_EQ(device.runs(), 1);
  EXPECT_EQ(observer_.batches, 1);
}

TEST_F(EngineTest, AJobWithNothingToComputeNeedsNoDevice) {
  PuppetDevice& device = AddDevice();
  Start();
  auto job = MakeJob();
  job->products.front().problem.n = 0;
  job->products.push_back(job->products.front());
  job->products.back().status = ErrorWithReason(Reason::kInvalidRequest, "refused before");
  const Outcome outcome = Submit(std::move(job)).get();
  EXPECT_EQ(ReasonOf(outcome.status), Reason::kInvalidRequest);  // its own, as it was
  EXPECT_EQ(device.runs(), 0);
}

TEST_F(EngineTest, AnErrorFailsOneJobAlone) {
  AddDevice().on_run = [](Job& job) {
    return job.products.front().problem.m == 5 ? ErrorWithReason(Reason::kMemoryFull, "no room")
                                               : absl::OkStatus();
  };
  Start();
  EXPECT_EQ(Submit(MakeJob(5)).get().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_TRUE(engine_->healthy());
}

TEST_F(EngineTest, ABoundJobRunsOnItsDevice) {
  AddDevice();
  PuppetDevice& second = AddDevice();
  Start();
  for (int i = 0; i < 20; ++i) {
    auto job = MakeJob();
    job->device = 1;
    EXPECT_TRUE(Submit(std::move(job)).get().status.ok());
  }
  EXPECT_EQ(second.runs(), 20);
}

TEST_F(EngineTest, ManyCallersAreAllAnsweredOnce) {
  AddDevice();
  AddDevice();
  options_.queue.problems = 16;
  Start();
  std::atomic<int> answered{0};
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        auto job = MakeJob();
        const auto cancel = job->cancel;
        job->done = [&answered](const absl::Status&, std::unique_ptr<Job>) { ++answered; };
        engine_->Submit(std::move(job));
        if (i % 7 == 0) engine_->Cancel(*cancel);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  engine_->Drain();
  EXPECT_EQ(answered, 2000);
}

// Holds the device until told to go on.
class HeldEngineTest : public EngineTest {
 protected:
  HeldEngineTest() {
    AddDevice().on_run = [this](Job&) {
      if (!started_.HasBeenNotified()) started_.Notify();
      release_.WaitForNotification();
      return absl::OkStatus();
    };
  }
  ~HeldEngineTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
    engine_.reset();  // before what on_run waits for
  }

  // Submits a job that occupies the device.
  std::future<Outcome> Occupy() {
    std::future<Outcome> future = Submit(MakeJob());
    started_.WaitForNotification();
    return future;
  }

  absl::Notification started_;
  absl::Notification release_;
};

TEST_F(HeldEngineTest, ADeadlineThatPassesInTheQueueNeverReachesTheDevice) {
  Start();
  auto first = Occupy();
  auto job = MakeJob();
  job->deadline = clock_.Now() + absl::Milliseconds(5);
  auto late = Submit(std::move(job));
  clock_.Advance(absl::Milliseconds(5));
  release_.Notify();
  EXPECT_TRUE(first.get().status.ok());
  const Outcome outcome = late.get();
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(outcome.status), Reason::kDeadlinePassed);
  EXPECT_EQ(outcome.job->queue, absl::Milliseconds(5));
  EXPECT_EQ(observer_.dropped, 1);
  EXPECT_EQ(observer_.finished, 1);
}

TEST_F(HeldEngineTest, ACallerThatHasGoneIsDroppedAtOnce) {
  Start();
  auto first = Occupy();
  auto job = MakeJob();
  auto cancel = job->cancel;
  auto gone = Submit(std::move(job));
  engine_->Cancel(*cancel);
  EXPECT_EQ(gone.get().status.code(), absl::StatusCode::kCancelled);  // the device is still held
  EXPECT_EQ(engine_->queued_problems(), 0u);
  EXPECT_EQ(observer_.dropped, 1);
  release_.Notify();
  EXPECT_TRUE(first.get().status.ok());
}

TEST_F(HeldEngineTest, ACallerThatGoesBecauseItsDeadlinePassedIsCountedAsThat) {
  Start();
  auto first = Occupy();
  auto job = MakeJob();
  auto cancel = job->cancel;
  job->deadline = clock_.Now() + absl::Milliseconds(5);
  auto late = Submit(std::move(job));
  clock_.Advance(absl::Milliseconds(5));
  engine_->Cancel(*cancel);
  EXPECT_EQ(ReasonOf(late.get().status), Reason::kDeadlinePassed);
  release_.Notify();
}

TEST_F(HeldEngineTest, ACallerThatLeavesBeforeTheQueueIsDroppedThere) {
  Start();
  auto first = Occupy();
  auto job = MakeJob();
  engine_->Cancel(*job->cancel);
  auto gone = Submit(std::move(job));
  release_.Notify();
  EXPECT_EQ(gone.get().status.code(), absl::StatusCode::kCancelled);
}

TEST_F(HeldEngineTest, SmallJobsDoNotWaitForALargeOne) {
  static_cast<PuppetDevice&>(*devices_[0]).lane_kinds = {LaneKind::kSmall, LaneKind::kAny};
  static_cast<PuppetDevice&>(*devices_[0]).on_run = [this](Job& job) {
    if (job.products.front().problem.m < 1000) return absl::OkStatus();
    started_.Notify();
    release_.WaitForNotification();
    return absl::OkStatus();
  };
  Start();
  auto large = Submit(MakeJob(20'000));
  started_.WaitForNotification();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  release_.Notify();
  EXPECT_TRUE(large.get().status.ok());
}

TEST_F(HeldEngineTest, WhatWaitsLeavesAsOneBatch) {
  Start();
  auto first = Occupy();
  std::vector<std::future<Outcome>> waiting;
  waiting.reserve(5);
  for (int i = 0; i < 5; ++i) waiting.push_back(Submit(MakeJob()));
  release_.Notify();
  EXPECT_EQ(first.get().job->batch_problems, 1u);
  int last = 0;
  for (auto& future : waiting) {
    const Outcome outcome = future.get();
    EXPECT_EQ(outcome.job->batch_problems, 5u);
    last += outcome.job->last_of_batch ? 1 : 0;
  }
  EXPECT_EQ(last, 1);
}

TEST_F(HeldEngineTest, AFullQueueRefusesAtOnceAndSaysWhy) {
  options_.queue.problems = 2;
  Start();
  auto first = Occupy();
  auto second = Submit(MakeJob());
  auto third = Submit(MakeJob());
  const Outcome refused = Submit(MakeJob()).get();  // would hang if it were queued
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused.status), Reason::kQueueFull);
  EXPECT_NE(refused.job, nullptr);
  EXPECT_EQ(engine_->queued_problems(), 2u);
  release_.Notify();
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_TRUE(third.get().status.ok());
}

TEST_F(HeldEngineTest, WhatRunsIsCountedApartFromWhatWaits) {
  Start();
  EXPECT_EQ(engine_->running_problems(), 0u);
  auto first = Occupy();
  EXPECT_EQ(engine_->running_problems(), 1u);
  auto pair = MakeJob();
  pair->products.push_back(pair->products.front());
  auto second = Submit(std::move(pair));
  EXPECT_EQ(engine_->running_problems(), 1u);
  EXPECT_EQ(engine_->queued_problems(), 2u);
  release_.Notify();
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_EQ(engine_->running_problems(), 0u);
}

TEST_F(HeldEngineTest, DrainFinishesWhatIsQueuedAndRefusesWhatComes) {
  Start();
  auto first = Occupy();
  auto second = Submit(MakeJob());
  std::thread drain([this] { engine_->Drain(); });
  Outcome refused;
  do {  // until the drain has begun
    auto late = Submit(MakeJob());
    if (late.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) {
      refused = late.get();
      break;
    }
  } while (true);
  EXPECT_EQ(ReasonOf(refused.status), Reason::kDraining);
  release_.Notify();
  drain.join();
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_TRUE(second.get().status.ok());
}

}  // namespace
}  // namespace gemm
