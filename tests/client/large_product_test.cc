// Products that are too large for one message: panels of rows, over several connections.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/time/clock.h"
#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"

namespace gemm {
namespace {

using testing::ConnectTo;
using testing::DetailedStatus;
using testing::FakeServer;
using ::testing::Ge;
using ::testing::SizeIs;

// D is just beyond what goes in one message.
constexpr int64_t kM = 4100;
constexpr int64_t kN = 2050;
constexpr int64_t kK = 2;
static_assert(kM * kN * sizeof(float) > kOneMessageBytes);

// Small whole numbers, of which every sum is exact.
std::vector<float> Numbers(int64_t count, int64_t seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + seed) % 31);
  return values;
}

class LargeProductTest : public ::testing::Test {
 protected:
  MultiplyArgs<float> Args() {
    MultiplyArgs<float> args;
    args.m = kM;
    args.n = kN;
    args.k = kK;
    args.a.data = a_;
    args.b.data = b_;
    args.d.data = d_;
    return args;
  }

  // Element (i, j) of A B.
  float Product(int64_t i, int64_t j) const {
    float sum = 0;
    for (int64_t l = 0; l < kK; ++l) sum += a_[i * kK + l] * b_[l * kN + j];
    return sum;
  }

  // How many elements of D, whose rows are `stride` apart, are not expected(i, j).
  template <typename Expected>
  int64_t Wrong(int64_t stride, Expected expected) const {
    int64_t wrong = 0;
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) wrong += d_[i * stride + j] != expected(i, j);
    }
    return wrong;
  }

  int64_t MatricesThatStay() const {
    const auto matrices = client_.ListMatrices();
    return matrices.ok() ? static_cast<int64_t>(matrices->size()) : -1;
  }

  const std::vector<float> a_ = Numbers(kM * kK, 1);
  const std::vector<float> b_ = Numbers(kK * kN, 2);
  std::vector<float> d_ = std::vector<float>(kM * kN);
  FakeServer server_;
  Client client_ = ConnectTo(server_.address(), {.channels = 3});
};

TEST_F(LargeProductTest, GoesInPanelsOverSeveralConnections) {
  ASSERT_TRUE(client_.Put<float>({.name = "b", .rows = kK, .columns = kN, .data = b_}).ok());
  // Two must be at work for any to go on.
  std::atomic<int> arrived = 0;
  for (int i = 1; i <= 2; ++i) {
    server_.OnCall("Multiply", i, [&arrived] {
      ++arrived;
      const absl::Time give_up = absl::Now() + absl::Seconds(10);
      while (arrived < 2 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
      return grpc::Status::OK;
    });
  }
  MultiplyArgs<float> args = Args();
  args.b = {.matrix = {.name = "b"}};
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(arrived, 2);
  EXPECT_THAT(server_.peers(), SizeIs(Ge(2)));
  EXPECT_LT(server_.last_request().product().m(), kM);
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);
  EXPECT_GE(report->request_bytes, a_.size() * sizeof(float));
  EXPECT_GE(report->reply_bytes, d_.size() * sizeof(float));
  EXPECT_EQ(report->attempts, 1);
  EXPECT_FALSE(report->kernel.empty());
  EXPECT_EQ(MatricesThatStay(), 1);  // the caller's own
}

TEST_F(LargeProductTest, TakesTheRowsOfEveryOperandAndLeavesPaddingAlone) {
  constexpr int64_t kStride = kN + 3;
  const std::vector<float> a = Numbers(kM * 3, 1);
  const std::vector<float> c = Numbers(kM * kStride, 5);
  d_.assign(kM * kStride, -1);
  ASSERT_TRUE(client_.Put<float>({.name = "b", .rows = kK, .columns = kN, .data = b_}).ok());
  MultiplyArgs<float> args = Args();
  args.a = {.data = a, .leading_dimension = 3};
  args.b = {.matrix = {.name = "b"}};
  args.c = {.data = c, .leading_dimension = kStride};
  args.d = {.data = d_, .leading_dimension = kStride};
  args.alpha = 2;
  args.beta = 3;
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(args);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto expected = [&](int64_t i, int64_t j) {
    const float sum = a[i * 3] * b_[j] + a[i * 3 + 1] * b_[kN + j];
    return 2 * sum + 3 * c[i * kStride + j];
  };
  EXPECT_EQ(Wrong(kStride, expected), 0);
  for (int64_t i = 0; i + 1 < kM; ++i) ASSERT_EQ(d_[i * kStride + kN], -1) << i;
}

TEST_F(LargeProductTest, PutsBForTheTimeBeing) {
  std::vector<float> transposed(kK * kN);
  for (int64_t l = 0; l < kK; ++l) {
    for (int64_t j = 0; j < kN; ++j) transposed[j * kK + l] = b_[l * kN + j];
  }
  MultiplyArgs<float> args = Args();
  args.b = {.data = transposed, .transposed = true};
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);
  EXPECT_TRUE(server_.last_request().product().b().has_matrix());
  EXPECT_EQ(MatricesThatStay(), 0);
}

// As long as a call may take, and some minutes.
TEST_F(LargeProductTest, WhatACallerLeavesThatDiesIsGoneSoon) {
  const auto life_of_b = [this](absl::Duration timeout) {
    const Client client = ConnectTo(server_.address(), {.timeout = timeout});
    absl::Duration life;
    server_.OnCall("Multiply", 1, [this, &life] {
      const auto matrices = client_.ListMatrices();
      if (matrices.ok() && matrices->size() == 1) life = matrices->front().time_to_live;
      return grpc::Status::OK;
    });
    EXPECT_TRUE(client.Multiply(Args()).ok());
    return life;
  };
  EXPECT_EQ(life_of_b(absl::Seconds(30)), absl::Seconds(330));
  EXPECT_EQ(life_of_b(absl::InfiniteDuration()), absl::Hours(1));  // the server's limit
}

TEST_F(LargeProductTest, ThePanelsOfAMatrixOnTheServerAreRowsOfIt) {
  std::vector<float> long_a = Numbers(kK, 9);  // a row that is not multiplied
  long_a.insert(long_a.end(), a_.begin(), a_.end());
  ASSERT_TRUE(
      client_.Put<float>({.name = "a", .rows = kM + 1, .columns = kK, .data = long_a}).ok());
  MultiplyArgs<float> args = Args();
  args.a = {.matrix = {.name = "a", .row_begin = 1, .row_count = kM}};
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);
}

TEST_F(LargeProductTest, FailsAsItsFirstPanelThatFails) {
  server_.OnCall("Multiply", 2, [] {
    return DetailedStatus(grpc::StatusCode::INTERNAL, "an error", "DEVICE_FAILED", "", 0);
  });
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(Args());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(GetErrorDetail(report.status()).value_or(ErrorDetail{}).reason, "DEVICE_FAILED");
  EXPECT_EQ(MatricesThatStay(), 0);
}

grpc::Status Full() {
  return DetailedStatus(grpc::StatusCode::UNAVAILABLE, "full", "MEMORY_FULL", "", 1);
}

TEST_F(LargeProductTest, MakesFewerCallsAtOnceWhereTheServerIsFull) {
  // Of the first three, which are under way at once, one is taken.
  const Client client = ConnectTo(server_.address(), {.max_retries = 0, .channels = 3});
  std::atomic<int> refused = 0;
  server_.OnCall("Multiply", 1, [&refused] {
    const absl::Time give_up = absl::Now() + absl::Seconds(10);
    while (refused < 2 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::OK;
  });
  for (int i = 2; i <= 3; ++i) {
    server_.OnCall("Multiply", i, [&refused] {
      ++refused;
      return Full();
    });
  }
  const absl::StatusOr<MultiplyReport> report = client.Multiply(Args());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);
}

TEST_F(LargeProductTest, TheLastOfItsCallsHasTheServerToItself) {
  const Client client = ConnectTo(server_.address(), {.max_retries = 0, .channels = 3});
  std::atomic<int> arrived = 0;
  const auto refuse_together = [&arrived] {
    ++arrived;
    const absl::Time give_up = absl::Now() + absl::Seconds(10);
    while (arrived < 3 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
    return Full();
  };
  for (int i = 1; i <= 3; ++i) server_.OnCall("Multiply", i, refuse_together);
  const absl::StatusOr<MultiplyReport> report = client.Multiply(Args());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);

  // And when even that is too much, the product fails.
  for (int i = 1; i <= 4; ++i) server_.OnCall("Multiply", i, Full);
  const absl::Status failed = client.Multiply(Args()).status();
  EXPECT_EQ(GetErrorDetail(failed).value_or(ErrorDetail{}).reason, "MEMORY_FULL");
  EXPECT_EQ(MatricesThatStay(), 0);
}

TEST_F(LargeProductTest, BeginsAgainWhenTheServerHasForgottenB) {
  server_.OnCall("Multiply", 2, [this] {
    server_.ForgetMatrices();
    return DetailedStatus(grpc::StatusCode::NOT_FOUND, "gone", "MATRIX_NOT_FOUND", "b", 0);
  });
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(Args());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);
  EXPECT_EQ(MatricesThatStay(), 0);
}

TEST_F(LargeProductTest, GoesInOneMessageWhereThereIsNoRoomForB) {
  const auto no_room = [] {
    return DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "QUOTA_EXCEEDED", "", 0);
  };
  server_.OnCall("CreateMatrix", 1, no_room);
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(Args());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(server_.last_request().product().m(), kM);
  EXPECT_EQ(Wrong(kN, [this](int64_t i, int64_t j) { return Product(i, j); }), 0);

  // And if that is refused, the first error is the one that helps.
  server_.OnCall("CreateMatrix", 1, no_room);
  server_.OnCall("Multiply", 1, [] {
    return DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "", "RESULT_TOO_LARGE", "", 0);
  });
  const absl::Status refused = client_.Multiply(Args()).status();
  EXPECT_EQ(GetErrorDetail(refused).value_or(ErrorDetail{}).reason, "QUOTA_EXCEEDED");
}

TEST_F(LargeProductTest, GoesInPanelsWhereTheServerTakesSmallerMessages) {
  constexpr int64_t kSide = 700;
  const std::vector<float> a = Numbers(kSide * kK, 1);
  const std::vector<float> b = Numbers(kK * kSide, 2);
  std::vector<float> d(kSide * kSide);
  server_.SetMessageLimit(1 << 20);
  server_.OnCall("Multiply", 1, [] {
    return DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "", "RESULT_TOO_LARGE", "", 0);
  });
  const absl::StatusOr<MultiplyReport> report = client_.Multiply<float>(
      {.m = kSide, .n = kSide, .k = kK, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(server_.last_request().product().m(), kSide);
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) {
      ASSERT_EQ(d[i * kSide + j], a[i * kK] * b[j] + a[i * kK + 1] * b[kSide + j]);
    }
  }
}

TEST_F(LargeProductTest, NothingToComputeIsNotCut) {
  const std::vector<float> a(kM * kN);
  MultiplyArgs<float> args = Args();
  args.n = 0;
  args.k = kN;
  args.a.data = a;
  args.b.data = {};
  args.d.data = {};
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(server_.calls(), 1);
}

// D would be written while C is still read.
TEST_F(LargeProductTest, DInPlaceOfAnOperandGoesInOneMessage) {
  d_ = Numbers(kM * kN, 4);
  const std::vector<float> c = d_;
  MultiplyArgs<float> args = Args();
  args.c.data = d_;
  args.beta = 1;
  const absl::StatusOr<MultiplyReport> report = client_.Multiply(args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(server_.last_request().product().m(), kM);
  EXPECT_EQ(Wrong(kN, [&](int64_t i, int64_t j) { return Product(i, j) + c[i * kN + j]; }), 0);
}

}  // namespace
}  // namespace gemm
