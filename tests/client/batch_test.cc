// MultiplyBatch, blocking and not, against servers in this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"

namespace gemm {
namespace {

using testing::ConnectTo;
using testing::DetailedStatus;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::HasSubstr;
using testing::StallingServer;

// Owns n x n products of matrices of their own: all ones times all (i + 1).
struct Squares {
  Squares(int products, int64_t n) {
    for (int i = 0; i < products; ++i) {
      a.emplace_back(n * n, 1.0f);
      b.emplace_back(n * n, static_cast<float>(i + 1));
      d.emplace_back(n * n, -1.0f);
    }
    for (int i = 0; i < products; ++i) {
      args.emplace_back(MultiplyArgs<float>{
          .m = n, .n = n, .k = n, .a = {.data = a[i]}, .b = {.data = b[i]}, .d = {.data = d[i]}});
    }
  }

  std::vector<std::vector<float>> a, b, d;
  std::vector<AnyMultiplyArgs> args;
};

class BatchTest : public ::testing::Test {
 protected:
  FakeServer server_;
  Client client_ = ConnectTo(server_.address());
};

TEST_F(BatchTest, ManyShapesAndTypes) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<double> x = {1, 2, 3, 4};
  std::vector<float> gram(4), padded(7, -1.0f), empty;
  std::vector<double> y(4, 10.0);
  const std::vector<AnyMultiplyArgs> products = {
      // a times its own transpose
      MultiplyArgs<float>{.m = 2,
                          .n = 2,
                          .k = 3,
                          .a = {.data = a},
                          .b = {.data = a, .transposed = true},
                          .d = {.data = gram}},
      // D = 2 x x + D, in place
      MultiplyArgs<double>{.m = 2,
                           .n = 2,
                           .k = 2,
                           .a = {.data = x},
                           .b = {.data = x},
                           .c = {.data = y},
                           .d = {.data = y},
                           .alpha = 2,
                           .beta = 1},
      MultiplyArgs<float>{.m = 0, .n = 3, .k = 2, .b = {.data = a}, .d = {.data = empty}},
      // padding in every matrix: of a the first two columns, of D four elements a row
      MultiplyArgs<float>{.m = 2,
                          .n = 3,
                          .k = 2,
                          .a = {.data = a, .leading_dimension = 3},
                          .b = {.data = a},
                          .d = {.data = padded, .leading_dimension = 4}}};
  const absl::StatusOr<MultiplyBatchReport> report = client_.MultiplyBatch(products, "mine");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->products.size(), 4u);
  for (const auto& product : report->products) {
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->kernel, "fake_f32_1x1x1");
    EXPECT_EQ(product->compute, absl::Nanoseconds(6));
  }
  EXPECT_THAT(gram, ElementsAre(14, 32, 32, 77));
  EXPECT_THAT(y, ElementsAre(24, 30, 40, 54));
  EXPECT_THAT(padded, ElementsAre(9, 12, 15, -1, 24, 33, 42));

  const v1::MultiplyBatchRequest request = server_.last_batch_request();
  EXPECT_EQ(request.request_id(), "mine");
  EXPECT_EQ(server_.last_announced_bytes(), std::to_string(report->request_bytes));
  EXPECT_EQ(report->request_bytes, request.ByteSizeLong());
  EXPECT_GT(report->reply_bytes, 0u);
  EXPECT_EQ(report->attempts, 1);
  EXPECT_GT(report->wall, absl::ZeroDuration());
}

TEST_F(BatchTest, WhatIsTheSameMemoryIsSentOnce) {
  Squares squares(8, 16);
  for (AnyMultiplyArgs& args : squares.args) {
    std::get<MultiplyArgs<float>>(args).b.data = squares.b[0];
  }
  ASSERT_TRUE(client_.MultiplyBatch(squares.args).ok());
  EXPECT_EQ(server_.last_batch_request().payloads_size(), 8 + 1);
  for (const auto& d : squares.d) EXPECT_THAT(d, Each(16.0f));
}

// The first 4 and the first 2 columns of a wide matrix begin at the same place, and are packed.
TEST_F(BatchTest, SparseOperandsAreToldApart) {
  std::vector<float> wide(4096);  // 64 x 64
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i % 64);
  const std::vector<float> ones(4, 1.0f);
  std::vector<float> four(64), two(64), again(64);
  const auto row_sums = [&](int64_t columns, std::vector<float>& d) {
    return MultiplyArgs<float>{.m = 64,
                               .n = 1,
                               .k = columns,
                               .a = {.data = wide, .leading_dimension = 64},
                               .b = {.data = ones},
                               .d = {.data = d}};
  };
  const std::vector<AnyMultiplyArgs> products = {row_sums(4, four), row_sums(2, two),
                                                 row_sums(4, again)};
  ASSERT_TRUE(client_.MultiplyBatch(products).ok());
  EXPECT_THAT(four, Each(6.0f));
  EXPECT_THAT(two, Each(1.0f));
  EXPECT_THAT(again, Each(6.0f));
  // 4 columns, 4 ones, 2 columns, 2 ones
  EXPECT_EQ(server_.last_batch_request().payloads_size(), 4);
}

TEST_F(BatchTest, AsManyAsThereMayBe) {
  Squares squares(4096, 3);
  const absl::StatusOr<MultiplyBatchReport> report = client_.MultiplyBatch(squares.args);
  ASSERT_TRUE(report.ok()) << report.status();
  for (int i = 0; i < 4096; ++i) {
    ASSERT_TRUE(report->products[i].ok());
    ASSERT_THAT(squares.d[i], Each(3.0f * static_cast<float>(i + 1)));
  }
}

TEST_F(BatchTest, AProductFailsAlone) {
  server_.EditBatchReplies([](v1::MultiplyBatchReply& reply) {
    const grpc::Status status = DetailedStatus(grpc::StatusCode::UNAVAILABLE, "products[1] waits",
                                               "QUEUE_FULL", "products[1]", 1500);
    reply.mutable_results(1)->clear_report();
    reply.mutable_results(1)->mutable_error()->ParseFromString(status.error_details());
    reply.mutable_payloads(1)->clear();
  });
  Squares squares(3, 2);
  const absl::StatusOr<MultiplyBatchReport> report = client_.MultiplyBatch(squares.args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(server_.calls(), 1);  // not tried again
  EXPECT_TRUE(report->products[0].ok());
  const absl::Status& failed = report->products[1].status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_EQ(failed.message(), "products[1] waits");
  EXPECT_EQ(GetErrorDetail(failed)->reason, "QUEUE_FULL");
  EXPECT_EQ(GetErrorDetail(failed)->field, "products[1]");
  EXPECT_EQ(GetErrorDetail(failed)->retry_delay, absl::Milliseconds(1500));
  EXPECT_TRUE(report->products[2].ok());
  EXPECT_THAT(squares.d[0], Each(2.0f));
  EXPECT_THAT(squares.d[1], Each(-1.0f));
  EXPECT_THAT(squares.d[2], Each(6.0f));
}

TEST_F(BatchTest, MistakesNameTheProduct) {
  Squares squares(3, 2);
  const auto mistake = [&](auto change) {
    std::vector<AnyMultiplyArgs> products = squares.args;
    change(std::get<MultiplyArgs<float>>(products[2]));
    absl::Status status = client_.MultiplyBatch(products).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return status;
  };
  const absl::Status data = mistake([](auto& args) { args.a.data = args.a.data.first(3); });
  EXPECT_EQ(GetErrorDetail(data)->field, "products[2].a.data");
  EXPECT_THAT(std::string(data.message()), ::testing::StartsWith("products[2].a.data has 3 "));
  EXPECT_EQ(GetErrorDetail(mistake([](auto& args) { args.m = -1; }))->field, "products[2].m");
  EXPECT_EQ(GetErrorDetail(mistake([](auto& args) { args.request_id = "x"; }))->field,
            "products[2].request_id");
  EXPECT_EQ(GetErrorDetail(client_.MultiplyBatch({}).status())->field, "products");
  const Squares many(4097, 1);
  EXPECT_EQ(GetErrorDetail(client_.MultiplyBatch(many.args).status())->field, "products");
  EXPECT_EQ(GetErrorDetail(client_.MultiplyBatch(squares.args, "\n").status())->field,
            "request_id");
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(BatchTest, LimitsAreOfTheWholeMessage) {
  const Client client = ConnectTo(server_.address(), {.message_limit_bytes = 1000});
  Squares squares(8, 4);  // 1024 bytes of operands and half as many of results
  const absl::Status request = client.MultiplyBatch(squares.args).status();
  EXPECT_EQ(GetErrorDetail(request)->reason, "MESSAGE_TOO_LARGE");
  std::vector<float> column(20), d(400);
  const MultiplyArgs<float> outer = {
      .m = 10, .n = 20, .k = 1, .a = {.data = column}, .b = {.data = column}, .d = {.data = d}};
  const std::vector<AnyMultiplyArgs> two = {outer, outer};
  EXPECT_EQ(GetErrorDetail(client.MultiplyBatch(two).status())->reason, "RESULT_TOO_LARGE");
  EXPECT_EQ(server_.calls(), 0);
  EXPECT_TRUE(client.MultiplyBatch({two.data(), 1}).ok());
}

TEST_F(BatchTest, RepliesToSomethingElseLeaveEveryDAlone) {
  const std::function<void(v1::MultiplyBatchReply&)> edits[] = {
      [](v1::MultiplyBatchReply& reply) { reply.mutable_results()->RemoveLast(); },
      [](v1::MultiplyBatchReply& reply) { reply.mutable_payloads()->RemoveLast(); },
      [](v1::MultiplyBatchReply& reply) { reply.add_payloads(); },
      [](v1::MultiplyBatchReply& reply) { reply.mutable_payloads(1)->pop_back(); },
      [](v1::MultiplyBatchReply& reply) {
        reply.mutable_results(1)->mutable_error()->set_code(14);
      },
      [](v1::MultiplyBatchReply& reply) {
        reply.mutable_results(1)->mutable_error();
        reply.mutable_payloads(1)->clear();
      }};
  for (const auto& edit : edits) {
    server_.EditBatchReplies(edit);
    Squares squares(2, 2);
    const absl::Status status = client_.MultiplyBatch(squares.args).status();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the server's reply cannot be used"));
    for (const auto& d : squares.d) EXPECT_THAT(d, Each(-1.0f));
  }
}

TEST_F(BatchTest, TheCallIsTriedAgain) {
  server_.FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "full")});
  Squares squares(2, 2);
  const absl::StatusOr<MultiplyBatchReport> report = client_.MultiplyBatch(squares.args);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->attempts, 2);
}

TEST_F(BatchTest, CallsBack) {
  auto squares = std::make_unique<Squares>(3, 8);
  const std::vector<AnyMultiplyArgs> args = squares->args;
  absl::StatusOr<MultiplyBatchReport> result;
  std::vector<std::vector<float>> d;
  absl::Notification over;
  client_.MultiplyBatchAsync(
      args, [&, squares = std::move(squares)](absl::StatusOr<MultiplyBatchReport> report) mutable {
        result = std::move(report);
        d = std::move(squares->d);
        squares.reset();
        over.Notify();
      });
  over.WaitForNotification();
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(d[i], Each(8.0f * static_cast<float>(i + 1)));

  absl::Notification refused;
  client_.MultiplyBatchAsync({}, [&](const absl::StatusOr<MultiplyBatchReport>& report) {
    EXPECT_TRUE(absl::IsInvalidArgument(report.status()));
    refused.Notify();
  });
  refused.WaitForNotification();
}

// In mid-upload; under the address sanitizer a late read of the operands would show.
TEST(BatchLifetimeTest, OperandsMayDieWithTheCallback) {
  const StallingServer stalling;
  const StallingServer refusing(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no"));
  const auto run = [](const std::string& address, absl::Duration timeout, bool cancel) {
    const Client client = ConnectTo(address, {.timeout = timeout});
    absl::Status result;
    absl::Notification over;
    auto squares = std::make_unique<Squares>(8, 512);
    const std::vector<AnyMultiplyArgs> args = squares->args;
    const PendingCall call = client.MultiplyBatchAsync(
        args, [&, squares = std::move(squares)](
                  const absl::StatusOr<MultiplyBatchReport>& report) mutable {
          squares.reset();
          result = report.status();
          over.Notify();
        });
    if (cancel) call.Cancel();
    over.WaitForNotification();
    return result;
  };
  EXPECT_TRUE(absl::IsCancelled(run(stalling.address(), absl::Seconds(60), true)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(run(stalling.address(), absl::Milliseconds(300), false)));
  EXPECT_TRUE(absl::IsResourceExhausted(run(refusing.address(), absl::Seconds(60), false)));
}

}  // namespace
}  // namespace gemm
