// Small jobs that the engine runs on the thread that submits them.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/engine/lending.h"
#include "server/reason.h"
#include "tests/server/engine/engine_fixture.h"

namespace gemm {
namespace {

// The thread on which each job ran.
class CallersThreadTest : public EngineTest {
 protected:
  CallersThreadTest() {
    options_.small_jobs_on_callers_thread = true;
    PuppetDevice& device = AddDevice();
    device.lane_kinds = {LaneKind::kSmall, LaneKind::kAny};
    device.on_run = [this](Job&) {
      ran_here_ = std::this_thread::get_id() == here_;
      return absl::OkStatus();
    };
  }

  const std::thread::id here_ = std::this_thread::get_id();
  std::atomic<bool> ran_here_{false};
};

TEST_F(CallersThreadTest, ASmallJobThatNeedNotWaitRunsThere) {
  Start();
  std::future<Outcome> future = Submit(MakeJob());
  ASSERT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  const Outcome outcome = future.get();
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_TRUE(ran_here_);
  EXPECT_EQ(outcome.job->batch_problems, 1u);
  EXPECT_TRUE(outcome.job->last_of_batch);
  EXPECT_EQ(observer_.finished, 1);
}

TEST_F(CallersThreadTest, ALargeJobDoesNot) {
  Start();
  EXPECT_TRUE(Submit(MakeJob(20'000)).get().status.ok());
  EXPECT_FALSE(ran_here_);
}

TEST_F(CallersThreadTest, OneThatIsNotWantedAnyMoreIsDropped) {
  Start();
  auto job = MakeJob();
  job->cancel->Cancel();
  EXPECT_EQ(ReasonOf(Submit(std::move(job)).get().status), Reason::kCallerGone);
  EXPECT_EQ(observer_.dropped, 1);
  EXPECT_EQ(observer_.finished, 0);
}

TEST_F(CallersThreadTest, WhoFindsNoFreeLaneStandsInLine) {
  absl::Notification release;
  absl::Notification started;
  auto& device = static_cast<PuppetDevice&>(*devices_[0]);
  device.on_run = [&](Job&) {
    if (!started.HasBeenNotified()) started.Notify();
    release.WaitForNotification();
    return absl::OkStatus();
  };
  Start();
  std::vector<std::thread> callers;
  std::vector<std::future<Outcome>> outcomes(3);
  callers.emplace_back([&] { outcomes[0] = Submit(MakeJob()); });
  started.WaitForNotification();    // that one has the only small lane
  outcomes[1] = Submit(MakeJob());  // waits, or else this test would stand still here
  outcomes[2] = Submit(MakeJob());
  release.Notify();
  for (std::thread& caller : callers) caller.join();
  for (auto& outcome : outcomes) EXPECT_TRUE(outcome.get().status.ok());
}

TEST_F(CallersThreadTest, EachFreeSmallLaneIsOneCallers) {
  absl::Notification release;
  absl::Notification started;
  auto& device = static_cast<PuppetDevice&>(*devices_[0]);
  device.lane_kinds = {LaneKind::kSmall, LaneKind::kSmall, LaneKind::kAny};
  device.on_run = [&](Job& job) {
    if (job.products.front().problem.m == 4) {
      started.Notify();
      release.WaitForNotification();
    } else {
      ran_here_ = std::this_thread::get_id() == here_;
    }
    return absl::OkStatus();
  };
  Start();
  std::future<Outcome> first;
  std::thread other([&] { first = Submit(MakeJob(4)); });
  started.WaitForNotification();
  EXPECT_TRUE(Submit(MakeJob(8)).get().status.ok());  // while that one runs
  EXPECT_TRUE(ran_here_);
  release.Notify();
  other.join();
  EXPECT_TRUE(first.get().status.ok());
}

TEST_F(CallersThreadTest, ALentLaneIsTakenBeforeThoseForBatches) {
  auto& device = static_cast<PuppetDevice&>(*devices_[0]);
  device.lane_kinds = {LaneKind::kSmall, LaneKind::kLent, LaneKind::kAny};
  Start();
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_TRUE(ran_here_);
  EXPECT_EQ(device.last_lane(), 1);
}

TEST_F(CallersThreadTest, WhoeverStandsInLineIsNotRunInALentLane) {
  options_.small_jobs_on_callers_thread = false;
  auto& device = static_cast<PuppetDevice&>(*devices_[0]);
  device.lane_kinds = {LaneKind::kLent, LaneKind::kAny};
  Start();
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_FALSE(ran_here_);
  EXPECT_EQ(device.last_lane(), 1);
}

TEST_F(CallersThreadTest, WhereManyLentLanesAreInUseWhatComesStandsInLine) {
  constexpr int kTaken = Lending::kMostInUse + 1;
  auto& device = static_cast<PuppetDevice&>(*devices_[0]);
  device.lane_kinds.assign(kTaken + 1, LaneKind::kLent);
  device.lane_kinds.push_back(LaneKind::kAny);
  absl::Notification release;
  std::atomic<int> taken{0};
  device.on_run = [&](Job& job) {
    if (job.products.front().problem.m == 8) {
      ++taken;
      release.WaitForNotification();
    } else {
      ran_here_ = std::this_thread::get_id() == here_;
    }
    return absl::OkStatus();
  };
  Start();
  std::vector<std::thread> callers;
  callers.reserve(kTaken);
  for (int i = 0; i < kTaken; ++i) callers.emplace_back([&] { Submit(MakeJob(8)); });
  while (taken < kTaken) std::this_thread::yield();
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_TRUE(ran_here_);  // one more has one, too
  for (int i = 0; i < 1000 && ran_here_; ++i) EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_FALSE(ran_here_);
  clock_.Advance(Lending::kPause);
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_TRUE(ran_here_);
  release.Notify();
  for (std::thread& caller : callers) caller.join();
}

TEST_F(CallersThreadTest, WhereNoLaneIsForSmallJobsAloneAnyWillDo) {
  static_cast<PuppetDevice&>(*devices_[0]).lane_kinds = {LaneKind::kAny};
  Start();
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_TRUE(ran_here_);
  EXPECT_TRUE(Submit(MakeJob(20'000)).get().status.ok());
  EXPECT_FALSE(ran_here_);
}

TEST_F(CallersThreadTest, OneThatTheDeviceTakesLongForDoesNot) {
  // 128 operations of a job of 4 cubed, in 64 and 128 us.
  for (const auto& [rate, here] : {std::pair(2e6, true), std::pair(1e6, false)}) {
    SCOPED_TRACE(rate);
    if (devices_.empty()) {
      PuppetDevice& device = AddDevice();
      device.lane_kinds = {LaneKind::kSmall, LaneKind::kAny};
      device.on_run = [this](Job&) {
        ran_here_ = std::this_thread::get_id() == here_;
        return absl::OkStatus();
      };
    }
    static_cast<PuppetDevice&>(*devices_[0]).set_ceiling_flops_per_second(rate);
    Start();
    EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
    EXPECT_EQ(ran_here_, here);
  }
}

TEST_F(CallersThreadTest, AfterADrainItIsRefused) {
  Start();
  engine_->Drain();
  EXPECT_EQ(ReasonOf(Submit(MakeJob()).get().status), Reason::kDraining);
}

TEST_F(CallersThreadTest, ALostDeviceIsPassedBy) {
  PuppetDevice& second = AddDevice();
  second.lane_kinds = {LaneKind::kSmall, LaneKind::kAny};
  static_cast<PuppetDevice&>(*devices_[0]).Lose();
  Start();
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_EQ(second.runs(), 1);
  EXPECT_EQ(observer_.last_device, 1);
}

}  // namespace
}  // namespace gemm
