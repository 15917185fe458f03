#include "server/rpc/pollers.h"

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/rpc/transport.h"

namespace gemm {
namespace {

// As main does, before gRPC starts.
[[maybe_unused]] const bool kPolling = (SetPolling(), true);

constexpr int kSpare = 3;

class PollersTest : public testing::Test {
 protected:
  ~PollersTest() override {
    for (grpc::CompletionQueue& queue : queues_) queue.Shutdown();
  }

  // An event that comes at once.
  void Post(int queue, std::function<void()> act) {
    class Posted final : public Event {
     public:
      explicit Posted(std::function<void()> act) : act_(std::move(act)) {}
      void Happen(bool ok) override {
        EXPECT_TRUE(ok);
        act_();
        delete this;
      }
      grpc::Alarm alarm;

     private:
      const std::function<void()> act_;
    };
    auto* const event = new Posted(std::move(act));
    event->alarm.Set(&queues_[queue], absl::ToChronoTime(absl::Now()), static_cast<Event*>(event));
  }

  void PostAndWait(
      int queue, const std::function<void()>& act = [] {}) {
    absl::Notification happened;
    Post(queue, [&] {
      act();
      happened.Notify();
    });
    happened.WaitForNotification();
  }

  // Events of a queue that stay until Release.
  void PostStuck(int queue, int count) {
    const int before = stuck_;
    for (int i = 0; i < count; ++i) {
      Post(queue, [this] {
        ++stuck_;
        release_.WaitForNotification();
        --stuck_;
      });
    }
    while (stuck_ < before + count) absl::SleepFor(absl::Milliseconds(1));
  }
  void Release() {
    release_.Notify();
    while (stuck_ > 0) absl::SleepFor(absl::Milliseconds(1));
  }

  bool HelpersLeave() {
    for (int i = 0; i < 2000 && pollers_.helping() > 0; ++i) absl::SleepFor(absl::Milliseconds(10));
    return pollers_.helping() == 0;
  }

  std::array<grpc::CompletionQueue, 2> queues_;
  absl::Notification release_;
  std::atomic<int> stuck_{0};
  Pollers pollers_{{&queues_[0], &queues_[1]}, kSpare};
};

TEST(SetPollingTest, TheEnvironmentHasItsWay) {
  constexpr char kVariable[] = "GRPC_POLL_STRATEGY";
  unsetenv(kVariable);
  SetPolling();
  EXPECT_STREQ(getenv(kVariable), "poll");
  setenv(kVariable, "epoll1", /*overwrite=*/1);
  SetPolling();
  EXPECT_STREQ(getenv(kVariable), "epoll1");
}

TEST_F(PollersTest, OneThreadHandlesTheEventsOfAQueue) {
  std::array<std::set<std::thread::id>, 2> threads;
  for (int i = 0; i < 300; ++i) {
    for (int queue = 0; queue < 2; ++queue) {
      PostAndWait(queue, [&] { threads[queue].insert(std::this_thread::get_id()); });
    }
  }
  EXPECT_EQ(threads[0].size(), 1u);
  EXPECT_EQ(threads[1].size(), 1u);
  EXPECT_NE(threads[0], threads[1]);
}

TEST_F(PollersTest, AStuckEventHoldsNoOtherUp) {
  PostStuck(0, 1);
  for (int queue = 0; queue < 2; ++queue) {
    for (int i = 0; i < 20; ++i) PostAndWait(queue);
  }
  EXPECT_EQ(pollers_.helping(), 1);
  Release();
  EXPECT_TRUE(HelpersLeave());
}

TEST_F(PollersTest, NorDoAsManyAsThereAreSpareThreads) {
  PostStuck(0, 2);
  PostStuck(1, 1);
  for (int queue = 0; queue < 2; ++queue) PostAndWait(queue);
  EXPECT_EQ(pollers_.helping(), kSpare);
  Release();
  EXPECT_TRUE(HelpersLeave());
}

TEST_F(PollersTest, NobodyHelpsAQueueThatIsBusyAndNotStuck) {
  std::atomic<bool> helped{false};
  for (int i = 0; i < 25; ++i) {
    PostAndWait(0, [&] {
      absl::SleepFor(absl::Milliseconds(20));
      if (pollers_.helping() > 0) helped = true;
    });
  }
  EXPECT_FALSE(helped);
}

}  // namespace
}  // namespace gemm
