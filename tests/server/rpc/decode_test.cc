#include "server/rpc/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "server/reason.h"
#include "tests/server/rpc/known_matrices.h"
#include "tests/server/rpc/request_bytes.h"

namespace gemm {
namespace {

using testing::HasSubstr;

constexpr uint64_t kReplyLimit = 64 << 20;

const JobProduct& Only(const absl::StatusOr<DecodedProducts>& decoded) {
  return decoded->products.front();
}

absl::StatusOr<DecodedProducts> Decode(const v1::MultiplyRequest& request,
                                       uint64_t reply_limit_bytes = kReplyLimit) {
  const std::string wire = request.SerializeAsString();
  std::string request_id;
  return DecodeMultiply(Cut(wire, 8192), WithKnownMatrices(reply_limit_bytes), request_id);
}

TEST(DecodeTest, AFullRequest) {
  v1::MultiplyRequest request = MakeRequest(3, 5, 7);
  const auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->products.size(), 1u);
  const Problem& p = Only(decoded).problem;
  EXPECT_EQ(p.m, 3);
  EXPECT_EQ(p.n, 5);
  EXPECT_EQ(p.k, 7);
  EXPECT_EQ(p.alpha, 1.0);  // left out
  EXPECT_EQ(p.beta, 0.0);   // left out
  EXPECT_EQ(p.a.ld, 7);
  EXPECT_EQ(p.b.ld, 5);
  EXPECT_EQ(p.d.ld, 5);
  EXPECT_EQ(Only(decoded).a.offset_bytes, 0u);
  EXPECT_EQ(Only(decoded).a.size_bytes, 84u);
  EXPECT_EQ(Only(decoded).b.offset_bytes, 256u);
  EXPECT_EQ(decoded->input_bytes, 512u);
  EXPECT_EQ(Only(decoded).output_bytes, 60u);
  EXPECT_EQ(decoded->output_bytes, 256u);
  EXPECT_EQ(decoded->copies.size(), 2u);
}

TEST(DecodeTest, TheRequestIdIsKnownEvenWhenTheRestIsRefused) {
  v1::MultiplyRequest request = MakeRequest(3, 5, 7);
  request.set_request_id("job-1");
  request.clear_product();
  const std::string wire = request.SerializeAsString();
  std::string request_id;
  EXPECT_FALSE(DecodeMultiply(Cut(wire, 8192), WithKnownMatrices(kReplyLimit), request_id).ok());
  EXPECT_EQ(request_id, "job-1");
}

TEST(DecodeTest, ZeroAlphaIsNotOne) {
  v1::MultiplyRequest request = MakeRequest(2, 2, 2);
  request.mutable_product()->set_alpha(0);
  const auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(Only(decoded).problem.alpha, 0.0);
  EXPECT_TRUE(decoded->copies.empty());  // A and B are never read
}

TEST(DecodeTest, OnePayloadForTwoOperandsIsCopiedOnce) {
  v1::MultiplyRequest request = MakeRequest(4, 4, 6);  // A times A transposed
  request.mutable_payloads()->RemoveLast();
  request.mutable_product()->mutable_b()->set_payload(0);
  request.mutable_product()->mutable_b()->set_transposed(true);
  const auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->copies.size(), 1u);
  EXPECT_EQ(Only(decoded).a.offset_bytes, Only(decoded).b.offset_bytes);
  EXPECT_EQ(Only(decoded).problem.b.ld, 6);
}

TEST(DecodeTest, BatchesArePackedUnlessToldOtherwise) {
  v1::MultiplyRequest request = MakeRequest(2, 3, 4);
  v1::Product& product = *request.mutable_product();
  product.set_batch_count(3);
  product.mutable_b()->set_batch_stride(0);
  *request.mutable_payloads(0) = std::string(size_t{3} * 2 * 4 * 4, 'a');
  const auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Only(decoded).problem.a.batch_stride, 8);
  EXPECT_EQ(Only(decoded).problem.b.batch_stride, 0);
  EXPECT_EQ(Only(decoded).output_bytes, 3u * 2 * 3 * 4);
}

TEST(DecodeTest, EmptyProductsAreValid) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{0, 5, 7}, {3, 0, 7}, {3, 5, 0}, {0, 0, 0}}) {
    const auto decoded = Decode(MakeRequest(m, n, k));
    EXPECT_TRUE(decoded.ok()) << decoded.status();
  }
  v1::MultiplyRequest none = MakeRequest(2, 2, 2);
  none.mutable_product()->set_batch_count(0);
  *none.mutable_payloads(0) = "";
  *none.mutable_payloads(1) = "";
  EXPECT_TRUE(Decode(none).ok());
}

TEST(DecodeTest, CIsCopiedOnlyWhenRead) {
  v1::MultiplyRequest request = MakeRequest(2, 2, 2);
  request.mutable_product()->mutable_c()->set_payload(2);
  request.add_payloads(std::string(16, 'c'));
  auto decoded = Decode(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->copies.size(), 2u);
  EXPECT_EQ(Only(decoded).c.size_bytes, 0u);
  request.mutable_product()->set_beta(0.5);
  decoded = Decode(request);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->copies.size(), 3u);
  EXPECT_EQ(Only(decoded).c.size_bytes, 16u);
}

struct BadCase {
  const char* name;
  std::function<void(v1::MultiplyRequest&)> spoil;
  const char* field;
  const char* text;  // part of the message
};

class BadRequestTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadRequestTest, NamesTheFieldAndTheLimit) {
  v1::MultiplyRequest request = MakeRequest(3, 5, 7);
  GetParam().spoil(request);
  const auto decoded = Decode(request);
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(decoded.status()), Reason::kInvalidRequest);
  EXPECT_EQ(FieldOf(decoded.status()), GetParam().field);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(GetParam().text));
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(GetParam().field));
}

constexpr int64_t kHuge = int64_t{1} << 62;
v1::Product& P(v1::MultiplyRequest& r) { return *r.mutable_product(); }

INSTANTIATE_TEST_SUITE_P(
    All, BadRequestTest,
    testing::Values(
        BadCase{"NoProduct", [](auto& r) { r.clear_product(); }, "product", "missing"},
        BadCase{"NegativeM", [](auto& r) { P(r).set_m(-1); }, "product.m", "-1"},
        BadCase{"NegativeN", [](auto& r) { P(r).set_n(INT64_MIN); }, "product.n",
                "-9223372036854775808"},
        BadCase{"NegativeK", [](auto& r) { P(r).set_k(-7); }, "product.k", "-7"},
        BadCase{"NegativeBatch", [](auto& r) { P(r).set_batch_count(-2); }, "product.batch_count",
                "-2"},
        BadCase{"HugeBatch", [](auto& r) { P(r).set_batch_count(int64_t{1} << 31); },
                "product.batch_count", "2147483647"},
        BadCase{"NoType", [](auto& r) { P(r).clear_data_type(); }, "product.data_type",
                "must be set"},
        BadCase{"UnknownType", [](auto& r) { P(r).set_data_type(static_cast<v1::DataType>(77)); },
                "product.data_type", "77"},
        BadCase{"UnknownPrecision",
                [](auto& r) { P(r).set_precision(static_cast<v1::Precision>(9)); },
                "product.precision", "9"},
        BadCase{"NoA", [](auto& r) { P(r).clear_a(); }, "product.a", "missing"},
        BadCase{"NoB", [](auto& r) { P(r).clear_b(); }, "product.b", "missing"},
        BadCase{"NoSource", [](auto& r) { P(r).mutable_a()->clear_payload(); }, "product.a.payload",
                "must name"},
        BadCase{"BetaWithoutC", [](auto& r) { P(r).set_beta(1); }, "product.c", "beta"},
        BadCase{"IndexOutOfRange", [](auto& r) { P(r).mutable_b()->set_payload(2); },
                "product.b.payload", "2 payloads"},
        BadCase{"HugeIndex", [](auto& r) { P(r).mutable_b()->set_payload(UINT32_MAX); },
                "product.b.payload", "4294967295"},
        BadCase{"ShortPayload", [](auto& r) { r.mutable_payloads(0)->pop_back(); }, "payloads[0]",
                "84"},
        BadCase{"LongPayload", [](auto& r) { r.mutable_payloads(1)->push_back('x'); },
                "payloads[1]", "140"},
        BadCase{"UnusedPayload", [](auto& r) { r.add_payloads(std::string("x")); }, "payloads[2]",
                "no operand"},
        BadCase{"LdBelowRow", [](auto& r) { P(r).mutable_a()->set_leading_dimension(6); },
                "product.a.leading_dimension", "7"},
        BadCase{"NegativeLd", [](auto& r) { P(r).mutable_b()->set_leading_dimension(-5); },
                "product.b.leading_dimension", "-5"},
        BadCase{"StrideBelowMatrix",
                [](auto& r) {
                  P(r).set_batch_count(2);
                  P(r).mutable_a()->set_batch_stride(20);
                },
                "product.a.batch_stride", "21"},
        BadCase{"NegativeStride",
                [](auto& r) {
                  P(r).set_batch_count(2);
                  P(r).mutable_a()->set_batch_stride(-21);
                },
                "product.a.batch_stride", "-21"},
        BadCase{"TransposedC",
                [](auto& r) {
                  P(r).set_beta(1);
                  P(r).mutable_c()->set_transposed(true);
                  P(r).mutable_c()->set_payload(1);
                },
                "product.c.transposed", ""},
        BadCase{"LongRequestId", [](auto& r) { r.set_request_id(std::string(129, 'x')); },
                "request_id", "128"},
        BadCase{"HostileRequestId", [](auto& r) { r.set_request_id("a\nb"); }, "request_id",
                "printable"}),
    [](const auto& test) { return test.param.name; });

TEST(DecodeTest, ProductsBeyond64BitsAreRefused) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{kHuge, 2, 2},
                         {1 << 30, 1 << 30, 1 << 30},
                         {INT64_MAX, 1, INT64_MAX},
                         {INT64_MAX, INT64_MAX, INT64_MAX},
                         {INT64_MAX, 1, 1},
                         {1, kHuge, 0}}) {
    v1::MultiplyRequest request = MakeRequest(1, 1, 1);
    P(request).set_m(m);
    P(request).set_n(n);
    P(request).set_k(k);
    EXPECT_EQ(Decode(request).status().code(), absl::StatusCode::kInvalidArgument)
        << m << " " << n << " " << k;
    P(request).mutable_a()->set_leading_dimension(INT64_MAX);
    P(request).mutable_b()->set_batch_stride(INT64_MAX);
    P(request).set_batch_count(INT32_MAX);
    EXPECT_EQ(Decode(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(DecodeTest, AResultOverTheReplyLimitIsRefusedBeforeItIsAllocated) {
  const auto decoded = Decode(MakeRequest(1000, 1000, 1), 3'999'999);
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(decoded.status()), Reason::kResultTooLarge);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("3999999"));
  EXPECT_TRUE(Decode(MakeRequest(1000, 1000, 1), 4'000'000).ok());
}

TEST(DecodeTest, GarbageIsRefused) {
  const std::string not_a_product = "\x0a\x03\x08\xff\xff";  // product with a varint cut short
  for (const std::string& wire : {not_a_product, std::string(1000, '\xff'), std::string()}) {
    std::string request_id;
    EXPECT_EQ(
        DecodeMultiply(Cut(wire, 100), WithKnownMatrices(kReplyLimit), request_id).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
}

absl::StatusOr<DecodedProducts> DecodeBatch(const v1::MultiplyBatchRequest& request,
                                            uint64_t reply_limit_bytes = kReplyLimit) {
  const std::string wire = request.SerializeAsString();
  std::string request_id;
  return DecodeMultiplyBatch(Cut(wire, 8192), WithKnownMatrices(reply_limit_bytes), request_id);
}

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

TEST(DecodeTest, ExplainNeedsNoOperands) {
  v1::Product product;
  product.set_m(2);
  product.set_n(3);
  product.set_k(4);
  product.set_data_type(v1::DATA_TYPE_F64);
  product.set_beta(1);
  const auto problem = DecodeProduct(product, /*operands_optional=*/true);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->a.ld, 4);
  EXPECT_FALSE(DecodeProduct(product, /*operands_optional=*/false).ok());
}

}  // namespace
}  // namespace gemm
