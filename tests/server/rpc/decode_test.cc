#include "server/rpc/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "server/reason.h"
#include "tests/server/rpc/decode_calls.h"

namespace gemm {
namespace {

using testing::HasSubstr;

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
