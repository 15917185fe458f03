#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "server/reason.h"
#include "tests/server/engine/puppet_device.h"

namespace gemm {
namespace {

class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(microseconds_); }
  void Advance(absl::Duration duration) { microseconds_ += absl::ToInt64Microseconds(duration); }

 private:
  std::atomic<int64_t> microseconds_{1'000'000};
};

class CountingObserver final : public EngineObserver {
 public:
  void OnBatch(const Batch& batch) override {
    ++batches;
    last_device = batch.device;
    for (const auto& job : batch.jobs) finished += static_cast<int>(job->products.size());
  }
  void OnDropped(const Job&, const absl::Status&) override { ++dropped; }
  void OnDeviceLost(const DeviceDescription&) override { ++lost; }

  std::atomic<int> batches{0};
  std::atomic<int> last_device{-1};
  std::atomic<int> finished{0};
  std::atomic<int> dropped{0};
  std::atomic<int> lost{0};
};

struct Outcome {
  absl::Status status;  // of the job, or else the first error of its products
  std::unique_ptr<Job> job;
};

class EngineTest : public testing::Test {
 protected:
  PuppetDevice& AddDevice() {
    devices_.push_back(std::make_unique<PuppetDevice>(static_cast<int>(devices_.size())));
    return static_cast<PuppetDevice&>(*devices_.back());
  }

  void Start() {
    engine_ = std::make_unique<Engine>(options_, std::move(devices_), clock_, observer_);
  }

  std::unique_ptr<Job> MakeJob(int64_t size = 4) {
    auto job = std::make_unique<Job>();
    job->products.emplace_back().problem = DenseProblem(DType::kF32, size, size, size);
    job->cancel = std::make_shared<CancelToken>();
    return job;
  }

  std::future<Outcome> Submit(std::unique_ptr<Job> job) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    std::future<Outcome> future = promise->get_future();
    job->done = [promise](absl::Status status, std::unique_ptr<Job> done) {
      for (const JobProduct& product : done->products) status.Update(product.status);
      promise->set_value({std::move(status), std::move(done)});
    };
    engine_->Submit(std::move(job));
    return future;
  }

  EngineOptions options_;
  FakeClock clock_;
  CountingObserver observer_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Engine> engine_;
};

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

TEST_F(EngineTest, ALostDeviceIsRoutedAround) {
  PuppetDevice& dying = AddDevice();
  AddDevice();
  dying.on_run = [&dying](Job&) {
    dying.Lose();
    return ErrorWithReason(Reason::kDeviceFailed, "illegal address");
  };
  Start();
  int failures = 0;
  for (int i = 0; i < 50; ++i) failures += !Submit(MakeJob()).get().status.ok();
  EXPECT_LE(failures, 1);  // which worker takes a job is up to the scheduler
  EXPECT_EQ(observer_.lost, failures);
  EXPECT_TRUE(engine_->healthy());
}

TEST_F(EngineTest, IdleLanesOfALostDeviceTakeNothingMore) {
  PuppetDevice& dying = AddDevice();
  PuppetDevice& other = AddDevice();
  for (PuppetDevice* device : {&dying, &other}) {
    device->lane_kinds = {LaneKind::kSmall, LaneKind::kSmall, LaneKind::kAny, LaneKind::kAny};
  }
  dying.on_run = [&dying](Job&) {
    dying.Lose();
    return ErrorWithReason(Reason::kDeviceFailed, "illegal address");
  };
  Start();
  int failures = 0;
  for (int i = 0; i < 100; ++i) {
    failures += !Submit(MakeJob(i % 2 == 0 ? 4 : 20'000)).get().status.ok();
  }
  EXPECT_LE(failures, 1);  // the one that the device died of, if it got any
  EXPECT_EQ(dying.runs(), failures);
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

TEST_F(EngineTest, JobsBoundToALostDeviceFailAndOthersDoNot) {
  PuppetDevice& dying = AddDevice();
  AddDevice();
  absl::Notification started;
  absl::Notification go;
  dying.on_run = [&](Job&) {
    started.Notify();
    go.WaitForNotification();
    dying.Lose();
    return ErrorWithReason(Reason::kDeviceFailed, "illegal address");
  };
  Start();
  const auto bound = [this] {
    auto job = MakeJob();
    job->device = 0;
    return job;
  };
  std::future<Outcome> fatal = Submit(bound());
  started.WaitForNotification();
  std::future<Outcome> waiting = Submit(bound());
  go.Notify();
  EXPECT_EQ(ReasonOf(fatal.get().status), Reason::kDeviceFailed);
  EXPECT_EQ(ReasonOf(waiting.get().status), Reason::kDeviceLost);
  EXPECT_EQ(ReasonOf(Submit(bound()).get().status), Reason::kDeviceLost);
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
  EXPECT_EQ(observer_.lost, 1);
}

TEST_F(EngineTest, ACopyThatLosesTheDeviceIsToldToo) {
  PuppetDevice& dying = AddDevice();
  AddDevice();
  dying.on_write = [&dying] {
    dying.Lose();
    return ErrorWithReason(Reason::kDeviceFailed, "illegal address");
  };
  Start();
  const auto matrix = engine_->AllocateMatrix(0, {DType::kF32, 3, 4});
  ASSERT_TRUE(matrix.ok());
  EXPECT_FALSE(engine_->WriteRows(**matrix, {0, 1}, [](std::byte*, size_t) {}).ok());
  EXPECT_EQ(observer_.lost, 1);
  EXPECT_TRUE(Submit(MakeJob()).get().status.ok());
}

TEST_F(EngineTest, WithNoDeviceLeftEveryJobIsAnswered) {
  PuppetDevice& dying = AddDevice();
  dying.on_run = [&dying](Job&) {
    dying.Lose();
    return ErrorWithReason(Reason::kDeviceFailed, "device lost");
  };
  Start();
  EXPECT_EQ(Submit(MakeJob()).get().status.code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(engine_->healthy());
  const Outcome outcome = Submit(MakeJob()).get();
  EXPECT_EQ(ReasonOf(outcome.status), Reason::kDeviceLost);
  EXPECT_EQ(dying.runs(), 1);
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

}  // namespace
}  // namespace gemm
