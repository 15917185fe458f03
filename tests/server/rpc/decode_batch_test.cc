// Messages of many products: what they share, and what fails alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/reason.h"
#include "tests/server/rpc/decode_calls.h"

namespace gemm {
namespace {

using testing::HasSubstr;

TEST(DecodeBatchTest, EveryProductHasItsPlace) {
  v1::MultiplyBatchRequest request;
  AddProduct(3, 5, 7, request);
  AddProduct(2, 2, 2, request);
  const auto decoded = DecodeBatch(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->products.size(), 2u);
  EXPECT_EQ(decoded->products[0].problem.n, 5);
  EXPECT_EQ(decoded->products[1].problem.n, 2);
  EXPECT_EQ(decoded->products[1].a.offset_bytes, 512u);
  EXPECT_EQ(decoded->products[1].output_offset_bytes, 256u);
  EXPECT_EQ(decoded->products[1].output_bytes, 16u);
  EXPECT_EQ(decoded->copies.size(), 4u);
  EXPECT_EQ(decoded->input_bytes, 1024u);
  EXPECT_EQ(decoded->output_bytes, 512u);
}

TEST(DecodeBatchTest, ASharedPayloadIsCopiedOnce) {
  v1::MultiplyBatchRequest request;
  for (int i = 0; i < 3; ++i) AddProduct(4, 4, 4, request);
  for (v1::Product& product : *request.mutable_products()) product.mutable_b()->set_payload(1);
  request.mutable_payloads()->DeleteSubrange(5, 1);
  request.mutable_payloads()->DeleteSubrange(3, 1);
  request.mutable_products(1)->mutable_a()->set_payload(2);
  request.mutable_products(2)->mutable_a()->set_payload(3);
  const auto decoded = DecodeBatch(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->copies.size(), 4u);
  EXPECT_EQ(decoded->products[0].b.offset_bytes, decoded->products[2].b.offset_bytes);
}

TEST(DecodeBatchTest, CopiesAreInTheOrderOfTheMessage) {
  v1::MultiplyBatchRequest request;
  for (int i = 0; i < 2; ++i) AddProduct(4, 4, 4, request);
  request.mutable_products()->SwapElements(0, 1);
  const auto decoded = DecodeBatch(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(std::is_sorted(decoded->copies.begin(), decoded->copies.end(),
                             [](const PayloadCopy& a, const PayloadCopy& b) {
                               return a.source.offset_bytes < b.source.offset_bytes;
                             }));
}

TEST(DecodeBatchTest, AnInvalidProductFailsAlone) {
  v1::MultiplyBatchRequest request;
  for (int i = 0; i < 6; ++i) AddProduct(4, 4, 4, request);
  request.mutable_products(1)->set_m(-4);
  request.mutable_products(2)->mutable_b()->set_payload(99);
  request.mutable_products(3)->set_k(3);
  request.mutable_products(4)->clear_a();  // nobody names its payload then
  request.mutable_products(4)->mutable_c()->set_payload(8);
  const auto decoded = DecodeBatch(request);
  // Payload 5 is named by nobody, since product 2 names 99.
  EXPECT_EQ(FieldOf(decoded.status()), "payloads[5]");
  request.mutable_products(4)->mutable_c()->set_payload(5);
  EXPECT_EQ(FieldOf(DecodeBatch(request).status()), "payloads[8]");

  request.mutable_products(2)->mutable_c()->set_payload(8);
  const auto mixed = DecodeBatch(request);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  const auto field = [&](size_t i) { return FieldOf(mixed->products[i].status); };
  EXPECT_EQ(field(0), "");
  EXPECT_EQ(field(1), "products[1].m");
  EXPECT_EQ(field(2), "products[2].b.payload");
  EXPECT_EQ(field(3), "payloads[6]");
  EXPECT_THAT(std::string(mixed->products[3].status.message()), HasSubstr("operand products[3].a"));
  EXPECT_EQ(field(4), "products[4].a");
  EXPECT_TRUE(mixed->products[5].status.ok());
  // Only what valid products read is copied, and only their results have a place.
  EXPECT_EQ(mixed->copies.size(), 4u);
  EXPECT_EQ(mixed->output_bytes, 512u);
  EXPECT_EQ(mixed->products[5].output_offset_bytes, 256u);
}

TEST(DecodeBatchTest, NoProductsOrTooManyFailTheCall) {
  v1::MultiplyBatchRequest request;
  EXPECT_EQ(FieldOf(DecodeBatch(request).status()), "products");
  AddProduct(0, 0, 0, request);
  while (request.products_size() < 4096) *request.add_products() = request.products(0);
  EXPECT_TRUE(DecodeBatch(request).ok());
  *request.add_products() = request.products(0);
  const auto decoded = DecodeBatch(request);
  EXPECT_EQ(FieldOf(decoded.status()), "products");
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("4096"));
}

TEST(DecodeBatchTest, TheLargestDescriptionFits) {
  v1::MultiplyBatchRequest request;
  request.set_request_id(std::string(128, 'r'));
  v1::Product product;
  for (auto set : {&v1::Product::set_m, &v1::Product::set_n, &v1::Product::set_k,
                   &v1::Product::set_batch_count}) {
    (product.*set)(-1);  // the longest of all numbers on the wire
  }
  product.set_data_type(static_cast<v1::DataType>(-1));
  product.set_precision(static_cast<v1::Precision>(-1));
  product.set_alpha(1);
  product.set_beta(1);
  for (v1::Operand* operand : {product.mutable_a(), product.mutable_b(), product.mutable_c()}) {
    operand->set_payload(UINT32_MAX);
    operand->set_transposed(true);
    operand->set_leading_dimension(-1);
    operand->set_batch_stride(-1);
  }
  while (request.products_size() < 4096) *request.add_products() = product;
  const auto decoded = DecodeBatch(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(FieldOf(decoded->products[4095].status), "products[4095].data_type");
}

TEST(DecodeBatchTest, MillionsOfTinyProductsAreCountedBeforeTheyAreMade) {
  std::string wire;
  for (int i = 0; i < 400'000; ++i) wire += std::string("\x0a\x00", 2);
  std::string request_id;
  EXPECT_EQ(FieldOf(DecodeMultiplyBatch(Cut(wire, 8192), WithKnownMatrices(kReplyLimit), request_id)
                        .status()),
            "products");
}

TEST(DecodeBatchTest, TheReplyLimitHoldsForOneAndForAll) {
  v1::MultiplyBatchRequest request;
  for (int i = 0; i < 2; ++i) AddProduct(10, 10, 1, request);
  EXPECT_TRUE(DecodeBatch(request, 800).ok());
  const auto together = DecodeBatch(request, 799);
  EXPECT_EQ(ReasonOf(together.status()), Reason::kResultTooLarge);
  EXPECT_THAT(std::string(together.status().message()), HasSubstr("800"));
  AddProduct(20, 10, 1, request);
  const auto one = DecodeBatch(request, 799);
  EXPECT_EQ(ReasonOf(one.status()), Reason::kResultTooLarge);  // the other two still
  request.mutable_products(0)->set_m(-1);
  const auto alone = DecodeBatch(request, 799);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(ReasonOf(alone->products[2].status), Reason::kResultTooLarge);
  EXPECT_EQ(FieldOf(alone->products[2].status), "products[2]");
  EXPECT_TRUE(alone->products[1].status.ok());
}

TEST(DecodeBatchTest, GarbageIsRefused) {
  for (const std::string& wire : {std::string("\x0a\x03\x08\xff\xff"), std::string(1000, '\xff')}) {
    std::string request_id;
    EXPECT_EQ(DecodeMultiplyBatch(Cut(wire, 100), WithKnownMatrices(kReplyLimit), request_id)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace gemm
