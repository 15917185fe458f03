#include "server/rpc/receiving.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr absl::Duration kLong = absl::Hours(1);
constexpr std::chrono::seconds kPatience{30};

// How a message was given up.
class Outcome {
 public:
  Receiving::GiveUp Noting() {
    return [this](absl::Status why) { promise_.set_value(std::move(why)); };
  }

  bool GivenUp(std::chrono::seconds within = kPatience) {
    return future_.wait_for(within) == std::future_status::ready;
  }
  // Once it was given up.
  absl::Status status() { return future_.get(); }

 private:
  std::promise<absl::Status> promise_;
  std::shared_future<absl::Status> future_ = promise_.get_future().share();
};

constexpr std::chrono::seconds kNow{0};

Receiving::Ticket AddArmed(Receiving& receiving, uint64_t bytes, Outcome& outcome) {
  const Receiving::Ticket ticket = receiving.Add(bytes, outcome.Noting());
  receiving.Arm(ticket);
  return ticket;
}

TEST(ReceivingTest, WhatDoesNotComeIsGivenUpOnce) {
  Outcome outcome;
  Receiving receiving(absl::Milliseconds(1));
  const Receiving::Ticket ticket = AddArmed(receiving, 1000, outcome);
  ASSERT_TRUE(outcome.GivenUp());
  EXPECT_EQ(ReasonOf(outcome.status()), Reason::kReceiveTimeout);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(receiving.Remove(ticket));
}

TEST(ReceivingTest, WhatHasComeIsNot) {
  Outcome outcome;
  Outcome later;
  Receiving receiving(absl::Milliseconds(1));
  EXPECT_TRUE(receiving.Remove(AddArmed(receiving, 1000, outcome)));
  AddArmed(receiving, 1000, later);
  ASSERT_TRUE(later.GivenUp());
  EXPECT_FALSE(outcome.GivenUp(kNow));
}

TEST(ReceivingTest, NothingIsGivenUpBeforeItIsArmed) {
  Outcome early;
  Outcome armed;
  Receiving receiving(absl::Milliseconds(1));
  const Receiving::Ticket ticket = receiving.Add(1, early.Noting());
  AddArmed(receiving, 1, armed);
  ASSERT_TRUE(armed.GivenUp());
  EXPECT_FALSE(early.GivenUp(kNow));
  EXPECT_TRUE(receiving.Remove(ticket));
  receiving.Arm(ticket);  // too late, and no harm
}

TEST(ReceivingTest, LargeMessagesMayTakeLonger) {
  Outcome large;
  Outcome small;
  Receiving receiving(absl::Milliseconds(1));
  const Receiving::Ticket ticket = AddArmed(receiving, uint64_t{1} << 31, large);  // 215 s
  AddArmed(receiving, 1, small);
  ASSERT_TRUE(small.GivenUp());
  EXPECT_FALSE(large.GivenUp(kNow));
  EXPECT_TRUE(receiving.Remove(ticket));
}

TEST(ReceivingTest, ADrainShortensTheTimeOfAllAndSaysWhy) {
  Outcome before;
  Outcome after;
  Receiving receiving(kLong);
  AddArmed(receiving, 1, before);
  receiving.Drain(absl::Milliseconds(1));
  AddArmed(receiving, 1, after);
  for (Outcome* outcome : {&before, &after}) {
    ASSERT_TRUE(outcome->GivenUp());
    EXPECT_EQ(ReasonOf(outcome->status()), Reason::kDraining);
  }
}

TEST(ReceivingTest, EndsAtOnceWithMessagesUnderWay) {
  Outcome outcome;
  {
    Receiving receiving(kLong);
    AddArmed(receiving, 1, outcome);
  }
  EXPECT_FALSE(outcome.GivenUp(kNow));
}

TEST(ReceivingTest, EachMessageIsEitherRemovedOrGivenUp) {
  std::atomic<int> given_up{0};
  std::atomic<int> removed{0};
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  {
    Receiving receiving(absl::Milliseconds(300));
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          const Receiving::Ticket ticket =
              receiving.Add(1, [&](const absl::Status&) { ++given_up; });
          receiving.Arm(ticket);
          absl::SleepFor(absl::Milliseconds(i % 10 == 0 ? 300 : 1));
          removed += receiving.Remove(ticket);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const absl::Time end = absl::Now() + absl::FromChrono(kPatience);
    while (given_up + removed < kThreads * kEach && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  EXPECT_EQ(given_up + removed, kThreads * kEach);
}

}  // namespace
}  // namespace gemm
