#include "server/engine/lending.h"

#include <gtest/gtest.h>

namespace gemm {
namespace {

class LendingTest : public testing::Test {
 protected:
  // How many of 1000 jobs may have a lane that come 10 us apart.
  int Allowed(Lending& lending, int in_use) {
    int allowed = 0;
    for (int i = 0; i < 1000; ++i) {
      now_ += absl::Microseconds(10);
      allowed += lending.Allows(in_use, now_) ? 1 : 0;
    }
    return allowed;
  }

  absl::Time now_ = absl::FromUnixSeconds(1);
};

TEST_F(LendingTest, AllowsWhatFewLanesServe) {
  Lending lending(1);
  EXPECT_EQ(Allowed(lending, 0), 1000);
  EXPECT_EQ(Allowed(lending, Lending::kMostInUse), 1000);
}

TEST_F(LendingTest, PausesWhenManyAreInUse) {
  Lending lending(1);
  EXPECT_LT(Allowed(lending, Lending::kMostInUse + 1), 100);
}

TEST_F(LendingTest, AMomentIsNoCrowd) {
  Lending lending(1);
  EXPECT_EQ(Allowed(lending, 1), 1000);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(lending.Allows(2 * Lending::kMostInUse, now_));
}

TEST_F(LendingTest, AllowsAgainAfterThePause) {
  Lending lending(1);
  while (lending.Allows(100, now_)) continue;
  EXPECT_FALSE(lending.Allows(0, now_ + Lending::kPause - absl::Microseconds(1)));
  EXPECT_TRUE(lending.Allows(0, now_ + Lending::kPause));
}

TEST_F(LendingTest, TwoDevicesServeTwiceAsMany) {
  Lending lending(2);
  EXPECT_EQ(Allowed(lending, 2 * Lending::kMostInUse), 1000);
  EXPECT_LT(Allowed(lending, 2 * Lending::kMostInUse + 1), 1000);
}

}  // namespace
}  // namespace gemm
