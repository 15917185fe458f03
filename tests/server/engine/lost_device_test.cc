// Devices that fail for good, and the jobs that they had or would have got.

#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "absl/synchronization/notification.h"
#include "server/reason.h"
#include "tests/server/engine/engine_fixture.h"

namespace gemm {
namespace {

using LostDeviceTest = EngineTest;

TEST_F(LostDeviceTest, ALostDeviceIsRoutedAround) {
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

TEST_F(LostDeviceTest, IdleLanesOfALostDeviceTakeNothingMore) {
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

TEST_F(LostDeviceTest, JobsBoundToALostDeviceFailAndOthersDoNot) {
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

TEST_F(LostDeviceTest, ACopyThatLosesTheDeviceIsToldToo) {
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

TEST_F(LostDeviceTest, WithNoDeviceLeftEveryJobIsAnswered) {
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

}  // namespace
}  // namespace gemm
