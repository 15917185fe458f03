#include "server/rpc/admission.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace gemm {
namespace {

using Verdict = Admission::Verdict;

class AdmissionTest : public testing::Test {
 protected:
  Verdict Request(uint64_t bytes, int id, Admission::Ticket* ticket = nullptr) {
    Admission::Ticket ignored;
    return admission_.Request(bytes, ticket != nullptr ? ticket : &ignored,
                              [this, id] { admitted_.push_back(id); });
  }

  Admission admission_{100, 3};
  std::vector<int> admitted_;
};

TEST_F(AdmissionTest, AdmitsUpToTheBudgetThenLinesUpInOrder) {
  EXPECT_EQ(Request(60, 1), Verdict::kAdmitted);
  EXPECT_EQ(Request(40, 2), Verdict::kAdmitted);
  EXPECT_EQ(Request(50, 3), Verdict::kWaiting);
  EXPECT_EQ(Request(1, 4), Verdict::kWaiting);  // would fit sooner, but does not overtake
  admission_.Release(40);
  EXPECT_TRUE(admitted_.empty());
  admission_.Release(60);
  EXPECT_EQ(admitted_, (std::vector<int>{3, 4}));
  EXPECT_EQ(admission_.used_bytes(), 51u);
}

TEST_F(AdmissionTest, RefusesBeyondTheLine) {
  EXPECT_EQ(Request(100, 0), Verdict::kAdmitted);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(Request(1, i), Verdict::kWaiting);
  EXPECT_EQ(Request(1, 4), Verdict::kRefused);
}

TEST_F(AdmissionTest, CancelLeavesTheLineAndLetsOthersUp) {
  Admission::Ticket large = 0;
  EXPECT_EQ(Request(50, 0), Verdict::kAdmitted);
  EXPECT_EQ(Request(90, 1, &large), Verdict::kWaiting);
  EXPECT_EQ(Request(50, 2), Verdict::kWaiting);
  EXPECT_TRUE(admission_.Cancel(large));
  EXPECT_EQ(admitted_, (std::vector<int>{2}));
  EXPECT_FALSE(admission_.Cancel(large));
  admission_.Release(50);
  admission_.Release(50);
  EXPECT_EQ(admission_.used_bytes(), 0u);
  EXPECT_EQ(admitted_, (std::vector<int>{2}));
}

TEST_F(AdmissionTest, CancelAfterAdmissionIsTooLate) {
  Admission::Ticket ticket = 0;
  EXPECT_EQ(Request(100, 0), Verdict::kAdmitted);
  EXPECT_EQ(Request(10, 1, &ticket), Verdict::kWaiting);
  admission_.Release(100);
  EXPECT_FALSE(admission_.Cancel(ticket));
  EXPECT_EQ(admission_.used_bytes(), 10u);
}

TEST(AdmissionStressTest, NeverOverBudgetAndEveryoneIsServedOrCancelled) {
  Admission admission(1000, 1 << 20);
  std::atomic<int> pending{0};
  std::atomic<uint64_t> most{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        const uint64_t bytes = 1 + random() % 700;
        Admission::Ticket ticket = 0;
        const auto served = [&, bytes] {
          uint64_t used = admission.used_bytes(), before = most;
          while (used > before && !most.compare_exchange_weak(before, used)) {
          }
          admission.Release(bytes);
          --pending;
        };
        ++pending;
        if (admission.Request(bytes, &ticket, served) == Verdict::kAdmitted) {
          served();
        } else if (random() % 3 == 0 && admission.Cancel(ticket)) {
          --pending;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pending, 0);
  EXPECT_EQ(admission.used_bytes(), 0u);
  EXPECT_LE(most, 1000u);
}

}  // namespace
}  // namespace gemm
