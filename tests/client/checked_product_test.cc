// Mistakes in the arguments of a Multiply: each is found before a call is made, and named.

#include "client/cpp/internal/checked_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gemmd/error_detail.h"

namespace gemm::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

class CheckedProductTest : public ::testing::Test {
 protected:
  // 2 x 3 by 3 x 4, twice, with C.
  MultiplyArgs<float> Valid() {
    return {.m = 2,
            .n = 4,
            .k = 3,
            .a = {.data = a_},
            .b = {.data = b_},
            .c = {.data = c_},
            .d = {.data = d_},
            .beta = 1,
            .batch_count = 2};
  }

  std::vector<float> a_ = std::vector<float>(12);
  std::vector<float> b_ = std::vector<float>(24);
  std::vector<float> c_ = std::vector<float>(16);
  std::vector<float> d_ = std::vector<float>(16);
};

TEST_F(CheckedProductTest, AcceptsWhatFitsExactly) {
  const absl::StatusOr<CheckedProduct> product = CheckProduct(Valid());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->a.extent_bytes(), 48);
  EXPECT_EQ(product->b.extent_bytes(), 96);
  EXPECT_EQ(product->c.extent_bytes(), 64);
  EXPECT_EQ(product->d.dense_bytes(), 64);
}

TEST_F(CheckedProductTest, LastRowNeedsNoPadding) {
  MultiplyArgs<float> args = Valid();
  args.batch_count = 1;
  args.a.leading_dimension = 9;  // 9 + 3 elements
  EXPECT_TRUE(CheckProduct(args).ok());
  args.a.leading_dimension = 10;
  EXPECT_FALSE(CheckProduct(args).ok());
}

TEST_F(CheckedProductTest, TransposedOperandsAreStoredTheOtherWayRound) {
  MultiplyArgs<float> args = Valid();
  args.a.transposed = true;
  args.a.leading_dimension = 2;  // 3 x 2 as stored
  EXPECT_TRUE(CheckProduct(args).ok());
  args.a.transposed = false;
  EXPECT_FALSE(CheckProduct(args).ok());
}

TEST_F(CheckedProductTest, AStrideThatIsNeverTakenMayBeHuge) {
  MultiplyArgs<float> args = Valid();
  args.batch_count = 1;
  args.a.batch_stride = kMax;
  args.m = 1;
  args.a.leading_dimension = kMax;
  EXPECT_TRUE(CheckProduct(args).ok());
}

TEST_F(CheckedProductTest, CIsNotLookedAtWithoutBeta) {
  MultiplyArgs<float> args = Valid();
  args.beta = 0;
  args.c = {.transposed = true, .leading_dimension = -1};
  EXPECT_TRUE(CheckProduct(args).ok());
}

TEST_F(CheckedProductTest, MistakesAreNamed) {
  struct Case {
    const char* field;
    const char* text;
    std::function<void(MultiplyArgs<float>&)> break_it;
  };
  using Args = MultiplyArgs<float>;
  const std::vector<Case> cases = {
      {"m", "-1", [](Args& x) { x.m = -1; }},
      {"n", "-2", [](Args& x) { x.n = -2; }},
      {"k", "-3", [](Args& x) { x.k = -3; }},
      {"m", "64-bit", [](Args& x) { x.m = x.n = x.k = 1 << 22; }},
      {"batch_count", "-1", [](Args& x) { x.batch_count = -1; }},
      {"batch_count", "2147483648", [](Args& x) { x.batch_count = int64_t{1} << 31; }},
      {"a.data", "12 elements", [](Args& x) { x.batch_count = 3; }},
      {"a.data", "needs 12", [](Args& x) { x.a.data = x.a.data.first(11); }},
      {"b.data", "needs 24", [](Args& x) { x.b.data = {}; }},
      {"c.data", "needs 16", [](Args& x) { x.c.data = x.c.data.first(15); }},
      {"d.data", "needs 16", [](Args& x) { x.d.data = x.d.data.first(15); }},
      {"a.leading_dimension", "is 2", [](Args& x) { x.a.leading_dimension = 2; }},
      {"a.leading_dimension", "is -1", [](Args& x) { x.a.leading_dimension = -1; }},
      {"a.leading_dimension", "64-bit", [](Args& x) { x.a.leading_dimension = kMax; }},
      {"d.leading_dimension", "is 3", [](Args& x) { x.d.leading_dimension = 3; }},
      {"b.batch_stride", "is 11", [](Args& x) { x.b.batch_stride = 11; }},
      {"b.batch_stride", "is -1", [](Args& x) { x.b.batch_stride = -1; }},
      {"b.batch_stride", "64-bit", [](Args& x) { x.b.batch_stride = kMax; }},
      {"d.batch_stride", "is 0", [](Args& x) { x.d.batch_stride = 0; }},
      {"d.batch_stride", "is 7", [](Args& x) { x.d.batch_stride = 7; }},
      {"c.transposed", "true", [](Args& x) { x.c.transposed = true; }},
      {"request_id", "129", [](Args& x) { x.request_id.assign(129, 'x'); }},
      {"request_id", "printable", [](Args& x) { x.request_id = "a\nb"; }},
  };
  for (const Case& c : cases) {
    MultiplyArgs<float> args = Valid();
    c.break_it(args);
    const absl::Status status = CheckProduct(args).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.field << ", " << c.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).field, c.field) << status;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).reason, "INVALID_REQUEST");
  }
}

}  // namespace
}  // namespace gemm::client
