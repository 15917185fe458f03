#include "client/cli/matmul_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gemm::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MatmulOperand Array(Shape shape, bool transpose = false, bool fortran_order = false) {
  return {"X.npy", std::move(shape), fortran_order, transpose};
}

std::string FaultOf(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST(MatmulShapeTest, TwoMatrices) {
  const absl::StatusOr<MatmulShape> shape = ShapeOfMatmul(Array({2, 3}), Array({3, 4}));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->m, 2);
  EXPECT_EQ(shape->n, 4);
  EXPECT_EQ(shape->k, 3);
  EXPECT_EQ(shape->batch_count, 1);
  EXPECT_THAT(shape->result, ElementsAre(2, 4));
  EXPECT_FALSE(shape->a.transposed);
  EXPECT_FALSE(shape->a.batch_stride);
}

TEST(MatmulShapeTest, TransposesAndFortranOrderCancelOut) {
  const absl::StatusOr<MatmulShape> shape =
      ShapeOfMatmul(Array({3, 2}, /*transpose=*/true, /*fortran_order=*/true),
                    Array({3, 4}, /*transpose=*/false, /*fortran_order=*/true));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_THAT(shape->result, ElementsAre(2, 4));
  EXPECT_FALSE(shape->a.transposed);
  EXPECT_TRUE(shape->b.transposed);
}

TEST(MatmulShapeTest, StacksAndBroadcast) {
  const absl::StatusOr<MatmulShape> both = ShapeOfMatmul(Array({5, 2, 3}), Array({5, 3, 4}));
  ASSERT_TRUE(both.ok());
  EXPECT_THAT(both->result, ElementsAre(5, 2, 4));
  EXPECT_FALSE(both->a.batch_stride);

  const absl::StatusOr<MatmulShape> right = ShapeOfMatmul(Array({2, 3}), Array({5, 3, 4}));
  ASSERT_TRUE(right.ok());
  EXPECT_THAT(right->result, ElementsAre(5, 2, 4));
  EXPECT_EQ(right->a.batch_stride, 0);
  EXPECT_FALSE(right->b.batch_stride);

  const absl::StatusOr<MatmulShape> one = ShapeOfMatmul(Array({5, 2, 3}), Array({1, 3, 4}));
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->b.batch_stride, 0);

  const absl::StatusOr<MatmulShape> none = ShapeOfMatmul(Array({0, 2, 3}), Array({3, 4}));
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(none->result, ElementsAre(0, 2, 4));
}

TEST(MatmulShapeTest, MismatchesAreExplained) {
  EXPECT_THAT(FaultOf(ShapeOfMatmul(Array({2, 3}), Array({4, 3})).status()),
              HasSubstr("inner dimensions differ: X.npy (2 x 3) has 3 columns, X.npy (4 x 3) has "
                        "4 rows"));
  EXPECT_THAT(FaultOf(ShapeOfMatmul(Array({2, 2, 3}), Array({5, 3, 4})).status()),
              HasSubstr("batches differ"));
  EXPECT_THAT(FaultOf(ShapeOfMatmul(Array({3}), Array({3, 4})).status()),
              HasSubstr("1 dimensions"));
  EXPECT_THAT(FaultOf(ShapeOfMatmul(Array({2, 3}), Array({1, 1, 3, 4})).status()),
              HasSubstr("4 dimensions"));
  EXPECT_THAT(FaultOf(ShapeOfMatmul(Array({2, 2, 3}, false, true), Array({3, 4})).status()),
              HasSubstr("ascontiguousarray"));
}

TEST(MatmulShapeTest, AStackOfOneMayBeInFortranOrder) {
  const absl::StatusOr<MatmulShape> shape =
      ShapeOfMatmul(Array({1, 2, 3}, false, true), Array({3, 4}));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(shape->a.transposed);
  EXPECT_THAT(shape->result, ElementsAre(1, 2, 4));
}

TEST(MatmulShapeTest, Addends) {
  const absl::StatusOr<MatmulShape> product = ShapeOfMatmul(Array({5, 2, 3}), Array({3, 4}));
  ASSERT_TRUE(product.ok());
  EXPECT_FALSE(ViewOfAddend(Array({5, 2, 4}), *product)->batch_stride);
  EXPECT_EQ(ViewOfAddend(Array({2, 4}), *product)->batch_stride, 0);
  EXPECT_TRUE(ViewOfAddend(Array({2, 4}, false, true), *product)->transposed);
  EXPECT_THAT(FaultOf(ViewOfAddend(Array({4, 2}), *product).status()),
              HasSubstr("cannot be added to a product of 5 x 2 x 4"));
  EXPECT_FALSE(ViewOfAddend(Array({3, 2, 4}), *product).ok());
}

}  // namespace
}  // namespace gemm::cli
