#include "server/rpc/pollers.h"

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemm {
namespace {

constexpr int kThreads = 4;
constexpr int kSpare = 2;

class PollersTest : public testing::Test {
 protected:
  ~PollersTest() override { queue_.Shutdown(); }

  // An event that comes at once, or as soon as `after` has passed.
  void Post(std::function<void()> act, absl::Duration after = absl::ZeroDuration()) {
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
    event->alarm.Set(&queue_, absl::ToChronoTime(absl::Now() + after), static_cast<Event*>(event));
  }

  void PostAndWait(const std::function<void()>& act) {
    absl::Notification happened;
    Post([&] {
      act();
      happened.Notify();
    });
    happened.WaitForNotification();
  }

  // One call after another, from the given connection.
  void CallOnce(const std::string& peer) {
    PostAndWait([&] { pollers_.CallCame(peer); });
    PostAndWait([&] { pollers_.CallWent(); });
  }

  bool Reaches(int at_work) {
    for (int i = 0; i < 500 && pollers_.at_work() != at_work; ++i) {
      CallOnce("quiet");  // a thread goes after an event
      absl::SleepFor(absl::Milliseconds(10));
    }
    return pollers_.at_work() == at_work;
  }

  grpc::CompletionQueue queue_;
  Pollers pollers_{queue_, kThreads, kSpare};
};

TEST_F(PollersTest, OneThreadServesOneCaller) {
  std::set<std::thread::id> threads;
  for (int i = 0; i < 500; ++i) {
    PostAndWait([&] {
      pollers_.CallCame("a");
      threads.insert(std::this_thread::get_id());
    });
    PostAndWait([&] {
      pollers_.CallWent();
      threads.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(pollers_.at_work(), 1);
}

TEST_F(PollersTest, OthersJoinForCallsAtATimeAndGoAfterwards) {
  for (int i = 0; i < 3 * kThreads; ++i) PostAndWait([&] { pollers_.CallCame("a"); });
  EXPECT_EQ(pollers_.at_work(), kThreads);
  for (int i = 0; i < 3 * kThreads; ++i) PostAndWait([&] { pollers_.CallWent(); });
  EXPECT_TRUE(Reaches(1)) << pollers_.at_work();
}

TEST_F(PollersTest, ThoseThatJoinedRunEventsAtTheSameTime) {
  for (int i = 0; i < 2 * kThreads; ++i) PostAndWait([&] { pollers_.CallCame("a"); });
  std::atomic<int> running{0};
  std::atomic<int> ended{0};
  for (int i = 0; i < kThreads; ++i) {
    Post([&] {
      ++running;
      while (running < kThreads) std::this_thread::yield();  // for ever, unless they do
      ++ended;
    });
  }
  while (ended < kThreads) absl::SleepFor(absl::Milliseconds(1));
}

// A thread that runs each call from its headers to its end never sees two at a time.
TEST_F(PollersTest, AnotherJoinsWhenCallsOfOtherConnectionsAlwaysWait) {
  std::atomic<int> calls{0};
  std::atomic<bool> over{false};
  const std::function<void(std::string)> call = [&](const std::string& peer) {
    pollers_.CallCame(peer);
    absl::SleepFor(absl::Milliseconds(1));
    pollers_.CallWent();
    ++calls;
    if (!over) Post([&call, peer] { call(peer); });
  };
  for (const char* peer : {"a", "b", "c"}) Post([&call, peer] { call(peer); });
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (pollers_.at_work() == 1 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GT(pollers_.at_work(), 1);
  over = true;
  EXPECT_TRUE(Reaches(1));
}

TEST_F(PollersTest, AStuckEventHoldsNoOtherUp) {
  absl::Notification release;
  absl::Notification ended;
  Post([&] {
    release.WaitForNotification();
    ended.Notify();
  });
  std::atomic<int> others{0};
  for (int i = 0; i < 20; ++i) PostAndWait([&] { ++others; });
  EXPECT_EQ(others, 20);
  release.Notify();
  ended.WaitForNotification();
  EXPECT_TRUE(Reaches(1));
}

TEST_F(PollersTest, ThereIsAThreadForEventsThoughAllThatMayJoinAreStuck) {
  for (int i = 0; i < 3 * kThreads; ++i) PostAndWait([&] { pollers_.CallCame("a"); });
  EXPECT_EQ(pollers_.at_work(), kThreads);
  absl::Notification release;
  std::atomic<int> stuck{0};
  for (int i = 0; i < kThreads + kSpare - 1; ++i) {
    Post([&] {
      ++stuck;
      release.WaitForNotification();
      --stuck;
    });
  }
  while (stuck < kThreads + kSpare - 1) absl::SleepFor(absl::Milliseconds(1));
  int others = 0;
  for (int i = 0; i < 20; ++i) PostAndWait([&] { ++others; });
  EXPECT_EQ(others, 20);
  release.Notify();
  while (stuck > 0) absl::SleepFor(absl::Milliseconds(1));
  for (int i = 0; i < 3 * kThreads; ++i) PostAndWait([&] { pollers_.CallWent(); });
  EXPECT_TRUE(Reaches(1));
}

}  // namespace
}  // namespace gemm
