// Products whose operands or results stay on the server.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/reason.h"
#include "tests/server/rpc/decode_calls.h"

namespace gemm {
namespace {

// op(A) is rows of a matrix on the server, op(B) k x 4 inline.
v1::MultiplyRequest OfMatrix(const char* name, int64_t m, int64_t k, int64_t row_begin = 0,
                             int64_t row_count = 0) {
  v1::MultiplyRequest request = MakeRequest(m, 4, k);
  request.mutable_payloads()->DeleteSubrange(0, 1);
  v1::Product& product = *request.mutable_product();
  product.mutable_b()->set_payload(0);
  product.mutable_a()->clear_source();
  product.mutable_a()->mutable_matrix()->set_name(name);
  product.mutable_a()->mutable_matrix()->set_row_begin(row_begin);
  product.mutable_a()->mutable_matrix()->set_row_count(row_count);
  return request;
}

TEST(DecodeMatrixTest, RowsAreWhereTheMatrixHasThem) {
  const auto decoded = Decode(OfMatrix("wide", 3, 300, 5, 3));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const JobProduct& product = Only(decoded);
  EXPECT_EQ(product.problem.a.ld, 320);
  EXPECT_EQ(product.problem.a.batch_stride, 3 * 320);
  EXPECT_EQ(product.a.offset_bytes, 5u * 320 * 4);
  EXPECT_EQ(product.a.size_bytes, (2u * 320 + 300) * 4);
  EXPECT_EQ(product.a.matrix->device(), 1);
  EXPECT_EQ(product.problem.a.alignment_bytes, 256);
  EXPECT_EQ(product.b.matrix, nullptr);
  EXPECT_EQ(decoded->copies.size(), 1u);  // B alone travels
  EXPECT_EQ(decoded->input_bytes, AlignedSize(4800));

  const auto odd = Decode(OfMatrix("f32", 2, 6, 3, 2));
  ASSERT_TRUE(odd.ok()) << odd.status();
  EXPECT_EQ(Only(odd).a.offset_bytes, 72u);
  EXPECT_EQ(Only(odd).problem.a.alignment_bytes, 8);
}

TEST(DecodeMatrixTest, ARowCountOfZeroIsTheRest) {
  EXPECT_TRUE(Decode(OfMatrix("f32", 10, 6)).ok());
  EXPECT_TRUE(Decode(OfMatrix("f32", 3, 6, 7)).ok());
  EXPECT_EQ(FieldOf(Decode(OfMatrix("f32", 4, 6, 7)).status()), "product.a.matrix.row_count");
  EXPECT_TRUE(Decode(OfMatrix("f32", 0, 6, 7)).ok());  // needs none
}

TEST(DecodeMatrixTest, ABatchFollowsInTheRowsOrSharesThem) {
  v1::MultiplyRequest request = OfMatrix("wide", 2, 300, 0, 10);
  request.mutable_product()->set_batch_count(5);
  request.mutable_product()->mutable_b()->set_batch_stride(0);
  const auto packed = Decode(request);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(Only(packed).problem.a.batch_stride, 2 * 320);
  EXPECT_EQ(Only(packed).a.size_bytes, (9u * 320 + 300) * 4);
  request.mutable_product()->mutable_a()->set_batch_stride(0);
  EXPECT_EQ(FieldOf(Decode(request).status()), "product.a.matrix.row_count");
  request.mutable_product()->mutable_a()->mutable_matrix()->set_row_count(2);
  const auto shared = Decode(request);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(Only(shared).problem.a.batch_stride, 0);
  EXPECT_EQ(Only(shared).a.size_bytes, (320u + 300) * 4);
}

TEST(DecodeMatrixTest, WhatIsNotReadIsNotHeld) {
  v1::MultiplyRequest request = OfMatrix("f32", 10, 6);
  request.mutable_product()->set_alpha(0);
  const auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(Only(decoded).a.matrix, nullptr);
  EXPECT_EQ(Only(decoded).a.size_bytes, 0u);
}

TEST(DecodeMatrixTest, ErrorsOfMatricesNameTheOperand) {
  const auto error = [](v1::MultiplyRequest request, auto change) {
    change(*request.mutable_product());
    const absl::Status status = Decode(request).status();
    return std::pair(ReasonOf(status).value_or(Reason::kDeviceLost), FieldOf(status));
  };
  const auto same = [](v1::Product&) {};
  EXPECT_EQ(error(OfMatrix("none", 10, 6), same),
            std::pair(Reason::kMatrixNotFound, std::string("product.a.matrix")));
  EXPECT_EQ(error(OfMatrix("open", 10, 6), same),
            std::pair(Reason::kMatrixNotSealed, std::string("product.a.matrix")));
  EXPECT_EQ(error(OfMatrix("f64", 10, 6), same),
            std::pair(Reason::kInvalidRequest, std::string("product.a.matrix")));
  EXPECT_EQ(error(OfMatrix("f32", 10, 7), same).second, "product.a.matrix");
  EXPECT_EQ(error(OfMatrix("f32", 10, 5), same).second, "product.a.matrix");
  EXPECT_EQ(error(OfMatrix("", 10, 6), same).second, "product.a.matrix.name");
  EXPECT_EQ(error(OfMatrix("f32", 10, 6, 11), same).second, "product.a.matrix.row_begin");
  EXPECT_EQ(error(OfMatrix("f32", 10, 6, 0, 11), same).second, "product.a.matrix.row_count");
  EXPECT_EQ(error(OfMatrix("f32", 10, 6),
                  [](v1::Product& product) { product.mutable_a()->set_leading_dimension(6); })
                .second,
            "product.a.leading_dimension");
  EXPECT_EQ(error(OfMatrix("f32", 10, 6),
                  [](v1::Product& product) { product.mutable_a()->set_batch_stride(60); })
                .second,
            "product.a.batch_stride");
  EXPECT_EQ(error(OfMatrix("f32", 10, 6), [](v1::Product& product) { product.set_m(-1); }).second,
            "product.m");
}

TEST(DecodeMatrixTest, AResultStaysAndTakesNothingOfTheReply) {
  v1::MultiplyRequest request = MakeRequest(3, 5, 7);
  request.mutable_product()->mutable_result()->set_name("d");
  request.mutable_product()->mutable_result()->set_time_to_live_ns(5'000);
  const auto decoded = Decode(request, /*reply_limit_bytes=*/1);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->output_bytes, 0u);
  EXPECT_EQ(Only(decoded).output_bytes, 0u);
  ASSERT_EQ(decoded->results.size(), 1u);
  EXPECT_EQ(decoded->results[0].product, 0u);
  EXPECT_EQ(decoded->results[0].name, "d");
  EXPECT_EQ(decoded->results[0].spec, (MatrixSpec{DType::kF32, 3, 5}));
  EXPECT_EQ(decoded->results[0].time_to_live, absl::Microseconds(5));
  request.mutable_product()->mutable_result()->clear_name();
  EXPECT_EQ(Decode(request)->results[0].name, "");
}

TEST(DecodeMatrixTest, ResultsThatMakeNoSenseAreRefusedByField) {
  v1::MultiplyRequest request = OfMatrix("f32", 10, 6);
  v1::ResultMatrix& result = *request.mutable_product()->mutable_result();
  result.set_name("f32");  // also an operand
  EXPECT_EQ(FieldOf(Decode(request).status()), "product.result.name");
  result.set_name("a b");
  EXPECT_EQ(FieldOf(Decode(request).status()), "product.result.name");
  result.set_name("d");
  EXPECT_TRUE(Decode(request).ok());
  result.set_time_to_live_ns(3'600'000'000'001);
  EXPECT_EQ(FieldOf(Decode(request).status()), "product.result.time_to_live_ns");
}

TEST(DecodeMatrixTest, TwoProductsOfAMessageNeedTwoNames) {
  v1::MultiplyBatchRequest request;
  for (int i = 0; i < 4; ++i) AddProduct(2, 2, 2, request);
  request.mutable_products(1)->mutable_result()->set_name("d");
  request.mutable_products(2)->mutable_result()->set_name("d");
  request.mutable_products(3)->mutable_result();  // the server's own choice
  request.mutable_products(0)->mutable_result();
  const auto decoded = DecodeBatch(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->products[1].status.ok());
  EXPECT_EQ(FieldOf(decoded->products[2].status), "products[2].result.name");
  ASSERT_EQ(decoded->results.size(), 3u);
  EXPECT_EQ(decoded->results[0].product, 0u);
  EXPECT_EQ(decoded->results[1].product, 1u);
  EXPECT_EQ(decoded->results[2].product, 3u);
}

}  // namespace
}  // namespace gemm
