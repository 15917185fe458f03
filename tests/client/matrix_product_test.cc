// Products of matrices that stay on the server, and results that stay there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"
#include "tests/client/matrix_values.h"

namespace gemm {
namespace {

using testing::BytesOf;
using testing::ConnectTo;
using ::testing::ElementsAre;
using testing::FakeServer;
using testing::FieldOf;
using testing::Numbered;
using testing::ReasonOf;

class MatrixProductTest : public ::testing::Test {
 protected:
  FakeServer server_;
  Client client_ = ConnectTo(server_.address());
};

TEST_F(MatrixProductTest, OperandsByName) {
  // B is rows 1 to 3 of w, 3 x 2.
  const std::vector<float> w = Numbered<float>(8);  // 4 x 2
  ASSERT_TRUE(client_.Put<float>({.name = "w", .rows = 4, .columns = 2, .data = w}).ok());
  const std::vector<float> a = {1, 10, 100};
  std::vector<float> d(2);
  const absl::StatusOr<MultiplyReport> report =
      client_.Multiply<float>({.m = 1,
                               .n = 2,
                               .k = 3,
                               .a = {.data = a},
                               .b = {.matrix = {.name = "w", .row_begin = 1, .row_count = 3}},
                               .d = {.data = d}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->result);
  EXPECT_THAT(d, ElementsAre(3 + 50 + 700, 4 + 60 + 800));
  const v1::MultiplyRequest request = server_.last_request();
  EXPECT_EQ(request.payloads_size(), 1);
  EXPECT_EQ(request.product().b().matrix().name(), "w");
  EXPECT_EQ(request.product().b().leading_dimension(), 0);
  EXPECT_FALSE(request.product().b().has_batch_stride());
}

TEST_F(MatrixProductTest, OperandsThatAreAllThere) {
  const std::vector<double> w = Numbered<double>(4);  // 2 x 2
  ASSERT_TRUE(client_.Put<double>({.name = "w", .rows = 2, .columns = 2, .data = w}).ok());
  std::vector<double> d(8);
  const MatrixRows name = {.name = "w"};
  const absl::StatusOr<MultiplyReport> report =
      client_.Multiply<double>({.m = 2,
                                .n = 2,
                                .k = 2,
                                .a = {.batch_stride = 0, .matrix = name},
                                .b = {.transposed = true, .batch_stride = 0, .matrix = name},
                                .c = {.batch_stride = 0, .matrix = name},
                                .d = {.data = d},
                                .beta = 1,
                                .batch_count = 2});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(d, ElementsAre(6, 13, 14, 29, 6, 13, 14, 29));
  EXPECT_EQ(server_.last_request().payloads_size(), 0);
}

TEST_F(MatrixProductTest, ResultsThatStay) {
  const std::vector<float> a = {1, 2};
  const std::vector<float> b = {3, 4};
  const absl::StatusOr<MultiplyReport> report = client_.Multiply<float>(
      {.m = 2,
       .n = 2,
       .k = 1,
       .a = {.data = a},
       .b = {.data = b},
       .result = ResultMatrix{.name = "d", .time_to_live = absl::Seconds(9)}});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->result);
  EXPECT_EQ(report->result->name, "d");
  EXPECT_EQ(report->result->rows, 2);
  EXPECT_EQ(report->result->time_to_live, absl::Seconds(9));
  EXPECT_EQ(server_.matrix_bytes("d"), BytesOf(std::vector<float>{3, 4, 6, 8}));

  // Without a name, each its own; larger than a message, too.
  const std::vector<float> column(100, 2), row(100, 3);
  const MultiplyArgs<float> args = {.m = 100,
                                    .n = 100,
                                    .k = 1,
                                    .a = {.data = column},
                                    .b = {.data = row},
                                    .result = ResultMatrix{}};
  const std::vector<AnyMultiplyArgs> products = {args, args};
  const absl::StatusOr<MultiplyBatchReport> batch = client_.MultiplyBatch(products);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_TRUE(batch->products[0].ok() && batch->products[1].ok());
  EXPECT_NE(batch->products[0]->result->name, batch->products[1]->result->name);
  EXPECT_EQ(server_.matrix_bytes(batch->products[1]->result->name),
            BytesOf(std::vector<float>(10'000, 6)));
}

TEST_F(MatrixProductTest, AServerThatKnowsNoResultMatricesIsAnError) {
  server_.EditReplies([](v1::MultiplyReply& reply) { reply.clear_result(); });
  const std::vector<float> one = {1};
  const absl::Status status = client_
                                  .Multiply<float>({.m = 1,
                                                    .n = 1,
                                                    .k = 1,
                                                    .a = {.data = one},
                                                    .b = {.data = one},
                                                    .result = ResultMatrix{.name = "d"}})
                                  .status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

TEST_F(MatrixProductTest, BatchesByName) {
  const std::vector<float> w = Numbered<float>(4);
  ASSERT_TRUE(client_.Put<float>({.name = "w", .rows = 2, .columns = 2, .data = w}).ok());
  const std::vector<float> a = {1, 1};
  std::vector<float> d(4);
  std::vector<AnyMultiplyArgs> products;
  products.reserve(2);
  for (size_t i = 0; i < 2; ++i) {
    products.emplace_back(MultiplyArgs<float>{.m = 1,
                                              .n = 2,
                                              .k = 2,
                                              .a = {.data = a},
                                              .b = {.matrix = {.name = "w"}},
                                              .d = {.data = std::span(d).subspan(2 * i, 2)}});
  }
  const absl::StatusOr<MultiplyBatchReport> report = client_.MultiplyBatch(products);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(d, ElementsAre(4, 6, 4, 6));
  EXPECT_EQ(server_.last_batch_request().payloads_size(), 1);
}

TEST_F(MatrixProductTest, MistakesInOperandsAreNamed) {
  const std::vector<float> one = {1};
  std::vector<float> d(1);
  const auto field_of = [&](auto edit) {
    MultiplyArgs<float> args = {
        .m = 1, .n = 1, .k = 1, .a = {.data = one}, .b = {.data = one}, .d = {.data = d}};
    edit(args);
    return FieldOf(client_.Multiply(args).status());
  };
  const auto named = [](MultiplyArgs<float>& args) { args.b = {.matrix = {.name = "w"}}; };
  EXPECT_EQ(field_of([&](auto& args) {
              named(args);
              args.b.matrix.name = "w w";
            }),
            "b.matrix.name");
  EXPECT_EQ(field_of([&](auto& args) {
              named(args);
              args.b.data = one;
            }),
            "b.data");
  EXPECT_EQ(field_of([&](auto& args) {
              named(args);
              args.b.leading_dimension = 1;
            }),
            "b.leading_dimension");
  EXPECT_EQ(field_of([&](auto& args) {
              named(args);
              args.b.batch_stride = 1;
            }),
            "b.batch_stride");
  EXPECT_EQ(field_of([&](auto& args) {
              named(args);
              args.b.matrix.row_begin = -1;
            }),
            "b.matrix.row_begin");
  EXPECT_EQ(field_of([&](auto& args) {
              named(args);
              args.b.matrix.row_count = -1;
            }),
            "b.matrix.row_count");
  EXPECT_EQ(field_of([&](auto& args) { args.result = ResultMatrix{.name = "r"}; }), "d.data");
  EXPECT_EQ(field_of([&](auto& args) {
              args.d = {};
              args.result = ResultMatrix{.name = "r r"};
            }),
            "result.name");
  EXPECT_EQ(field_of([&](auto& args) {
              args.d = {};
              args.result = ResultMatrix{.time_to_live = -absl::Seconds(1)};
            }),
            "result.time_to_live");
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(MatrixProductTest, ALostMatrixIsNotFoundByItsName) {
  std::vector<float> d(1);
  const absl::Status status = client_
                                  .Multiply<float>({.m = 1,
                                                    .n = 1,
                                                    .k = 1,
                                                    .a = {.matrix = {.name = "gone"}},
                                                    .b = {.matrix = {.name = "gone"}},
                                                    .d = {.data = d}})
                                  .status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(ReasonOf(status), "MATRIX_NOT_FOUND");
}

}  // namespace
}  // namespace gemm
