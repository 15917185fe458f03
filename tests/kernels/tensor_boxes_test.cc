// Rows of any alignment as arrays that the copy engine can fetch from.

#include "kernels/families/tensor_boxes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace gemm {
namespace {

// The element's address by its row class, which has to have it.
const float* InClass(const TensorBoxes& rows, int64_t o, int64_t l, int64_t q) {
  const RowClass row_class = RowClassOf(rows, static_cast<int>(l % kRowClasses));
  const TensorBoxes& boxes = row_class.boxes;
  const int64_t x = row_class.first + q * row_class.matrix_step + o;
  const int64_t z = boxes.matrices > 1 ? q : 0;
  EXPECT_LT(x, boxes.outer);
  EXPECT_LT(l / kRowClasses, boxes.depth);
  EXPECT_LT(z, boxes.matrices);
  return boxes.base + z * boxes.matrix_stride + l / kRowClasses * boxes.depth_stride + x;
}

void ExpectAligned(const TensorBoxes& boxes) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(boxes.base) % 16, 0u);
  EXPECT_EQ(boxes.depth_stride % 4, 0);
  EXPECT_EQ(boxes.matrix_stride % 4, 0);
  EXPECT_GE(boxes.outer, 1);
  EXPECT_GE(boxes.depth, 1);
  EXPECT_GE(boxes.matrices, 1);
  EXPECT_EQ(boxes.box_depth, 8);
}

void Check(const TensorBoxes& rows) {
  SCOPED_TRACE(testing::Message() << rows.outer << " x " << rows.depth << " x " << rows.matrices
                                  << ", strides " << rows.depth_stride << " and "
                                  << rows.matrix_stride);
  const auto element = [&rows](int64_t o, int64_t l, int64_t q) {
    return rows.base + q * rows.matrix_stride + l * rows.depth_stride + o;
  };
  for (int64_t q = 0; q < rows.matrices; ++q) {
    for (int64_t l = 0; l < rows.depth; ++l) {
      for (int64_t o : {int64_t{0}, rows.outer - 1}) {
        EXPECT_EQ(InClass(rows, o, l, q), element(o, l, q)) << o << " " << l << " " << q;
      }
    }
  }
  for (int c = 0; c < kRowClasses; ++c) {
    const RowClass row_class = RowClassOf(rows, c);
    const TensorBoxes& boxes = row_class.boxes;
    ExpectAligned(boxes);
    if (c >= rows.depth) {
      EXPECT_GE(row_class.first, boxes.outer);
      EXPECT_EQ(row_class.first % 4, 0);
      continue;
    }
    EXPECT_LT(row_class.first, 4);
    EXPECT_GT(boxes.base + 4, rows.base);
    EXPECT_LE(boxes.base + (boxes.matrices - 1) * boxes.matrix_stride +
                  (boxes.depth - 1) * boxes.depth_stride + boxes.outer - 1,
              element(rows.outer - 1, rows.depth - 1, rows.matrices - 1));
    if (row_class.matrix_step == 0) {
      EXPECT_EQ(boxes.outer, rows.outer + row_class.first);
    }
  }
}

TEST(RowClassTest, DescribeRowsOfAnyAlignment) {
  alignas(16) static float memory[1024];
  for (int offset = 0; offset < 4; ++offset) {
    for (int64_t outer : {1, 3, 4, 7}) {
      for (int64_t depth : {1, 2, 3, 4, 5, 9}) {
        for (int64_t padding : {0, 1, 2, 3, 4}) {
          const int64_t stride = outer + padding;
          TensorBoxes rows{memory + offset, outer, depth, 1, stride, 0, 64, 32};
          Check(rows);
          rows.matrices = 3;
          for (int64_t more : {0, 1, 2, 3}) {
            rows.matrix_stride = stride * depth + more;
            Check(rows);
          }
        }
      }
    }
  }
}

TEST(RowClassTest, DescribeMatricesBetweenEachOthersRows) {
  alignas(16) static float memory[1024];
  for (int64_t stride : {20, 21, 23}) {
    for (int64_t matrix_stride : {1, 2, 3, 4, 5}) {
      Check({memory + 5, matrix_stride, 7, 4, stride, matrix_stride, 64, 32});
    }
  }
}

TEST(RowClassTest, KnowTheLimits) {
  TensorBoxes rows{nullptr, 100, 100, 1, 101, int64_t{1} << 50, 64, 32};
  EXPECT_TRUE(FitRowClasses(rows));
  rows.matrices = 2;
  EXPECT_FALSE(FitRowClasses(rows));
  rows.matrix_stride = 10100;
  EXPECT_TRUE(FitRowClasses(rows));
  rows.matrices = int64_t{1} << 28;
  EXPECT_FALSE(FitRowClasses(rows));
  rows.matrices = 1;
  rows.depth_stride = int64_t{1} << 36;  // four of them are 2^40 bytes
  EXPECT_FALSE(FitRowClasses(rows));
  rows.depth_stride -= 1;
  EXPECT_TRUE(FitRowClasses(rows));
  rows.outer = int64_t{1} << 29;
  EXPECT_FALSE(FitRowClasses(rows));
}

}  // namespace
}  // namespace gemm
