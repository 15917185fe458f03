#include <gtest/gtest.h>

#include <limits>

#include "kernels/gemm.h"

namespace gemm {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// The field that Validate complains about; "" if it does not.
std::string FaultyField(const Problem& problem) {
  const auto fault = Validate(problem);
  return fault ? fault->field : "";
}

Problem Valid() { return DenseProblem(DType::kF32, 3, 5, 7, 2); }

TEST(Validate, AcceptsDenseProblems) {
  EXPECT_EQ(FaultyField(Valid()), "");
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF64, 1, 1, 1)), "");
  for (int zero = 0; zero < 4; ++zero) {
    EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, zero == 0 ? 0 : 3, zero == 1 ? 0 : 5,
                                       zero == 2 ? 0 : 7, zero == 3 ? 0 : 2)),
              "")
        << zero;
  }
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF64, 0, 0, 0, 0)), "");
}

TEST(Validate, NamesNegativeSizes) {
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, -1, 5, 7)), "m");
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, 3, -1, 7)), "n");
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, 3, 5, -1)), "k");
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, 3, 5, 7, -1)), "batch_count");
  const auto fault = Validate(DenseProblem(DType::kF32, -17, 5, 7));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->message, "is -17; must be at least 0");
}

TEST(Validate, LimitsTheBatch) {
  Problem problem = DenseProblem(DType::kF32, 1, 1, 1, (int64_t{1} << 31) - 1);
  EXPECT_EQ(FaultyField(problem), "");
  problem.batch_count += 1;
  EXPECT_EQ(FaultyField(problem), "batch_count");
  problem.batch_count = kMax;
  EXPECT_EQ(FaultyField(problem), "batch_count");
}

TEST(Validate, RefusesProductsThatOverflow) {
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, int64_t{1} << 32, int64_t{1} << 31, 1)), "n");
  EXPECT_EQ(
      FaultyField(DenseProblem(DType::kF32, int64_t{1} << 21, int64_t{1} << 21, int64_t{1} << 21)),
      "k");
  EXPECT_EQ(FaultyField(
                DenseProblem(DType::kF32, int64_t{1} << 21, int64_t{1} << 21, int64_t{1} << 20, 4)),
            "batch_count");
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, kMax, kMax, kMax, 2)), "n");
  // m * n * batch_count must fit though k = 0 makes the whole product 0.
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF32, int64_t{1} << 40, int64_t{1} << 40, 0)), "n");
}

TEST(Validate, RefusesExtentsThatOverflow) {
  // 2^62 elements are countable, their bytes are not.
  EXPECT_EQ(FaultyField(DenseProblem(DType::kF64, int64_t{1} << 31, 1, int64_t{1} << 31)),
            "a.leading_dimension");
  Problem problem = Valid();
  problem.a.ld = kMax;
  EXPECT_EQ(FaultyField(problem), "a.leading_dimension");
  problem = Valid();
  problem.b.ld = int64_t{1} << 61;
  EXPECT_EQ(FaultyField(problem), "b.leading_dimension");
  problem = Valid();
  problem.d.batch_stride = kMax;
  EXPECT_EQ(FaultyField(problem), "d.batch_stride");
  // The largest extent that fits, and one more.
  problem = DenseProblem(DType::kF32, 2, 1, 1);
  problem.d.batch_stride = 0;
  problem.d.ld = kMax / 4 - 1;
  EXPECT_EQ(FaultyField(problem), "");
  problem.d.ld += 1;
  EXPECT_EQ(FaultyField(problem), "d.leading_dimension");
}

TEST(Validate, ChecksLeadingDimensionsOfWhatIsStored) {
  Problem problem = Valid();
  problem.a.ld = 6;
  EXPECT_EQ(FaultyField(problem), "a.leading_dimension");
  problem = Valid();
  problem.a.transposed = true;  // stored 7 x 3
  problem.a.ld = 3;
  EXPECT_EQ(FaultyField(problem), "");
  problem.a.ld = 2;
  EXPECT_EQ(FaultyField(problem), "a.leading_dimension");
  problem = Valid();
  problem.b.ld = 4;
  EXPECT_EQ(FaultyField(problem), "b.leading_dimension");
  problem = Valid();
  problem.d.ld = 4;
  EXPECT_EQ(FaultyField(problem), "d.leading_dimension");
  problem = DenseProblem(DType::kF32, 3, 0, 0);
  problem.a.ld = 0;  // at least 1 even for empty rows
  EXPECT_EQ(FaultyField(problem), "a.leading_dimension");
  problem = Valid();
  problem.b.ld = -1;
  EXPECT_EQ(FaultyField(problem), "b.leading_dimension");
}

TEST(Validate, ChecksBatchStrides) {
  Problem problem = Valid();
  problem.a.batch_stride = 0;
  problem.b.batch_stride = 0;
  EXPECT_EQ(FaultyField(problem), "");
  problem.a.batch_stride = 20;  // one matrix is 21
  EXPECT_EQ(FaultyField(problem), "a.batch_stride");
  problem.a.batch_stride = -21;
  EXPECT_EQ(FaultyField(problem), "a.batch_stride");
  problem = Valid();
  problem.d.batch_stride = 0;
  EXPECT_EQ(FaultyField(problem), "d.batch_stride");
  problem.batch_count = 1;
  EXPECT_EQ(FaultyField(problem), "");
  problem = Valid();
  problem.d.ld = 9;
  problem.d.batch_stride = 2 * 9 + 5;  // the last row needs no padding
  EXPECT_EQ(FaultyField(problem), "");
  problem.d.batch_stride -= 1;
  EXPECT_EQ(FaultyField(problem), "d.batch_stride");
}

TEST(Validate, LooksAtCOnlyWhenItIsRead) {
  Problem problem = Valid();
  problem.c = {};  // ld = 0
  EXPECT_EQ(FaultyField(problem), "");
  problem.beta = 1;
  EXPECT_EQ(FaultyField(problem), "c.leading_dimension");
  problem = Valid();
  problem.beta = 1;
  problem.c.batch_stride = 0;  // one C for the whole batch
  EXPECT_EQ(FaultyField(problem), "");
  problem.beta = 1e-60;  // 0 in f32
  problem.c = {};
  EXPECT_EQ(FaultyField(problem), "");
}

TEST(Validate, RefusesTransposedResults) {
  Problem problem = Valid();
  problem.c.transposed = true;
  EXPECT_EQ(FaultyField(problem), "c.transposed");
  problem = Valid();
  problem.d.transposed = true;
  EXPECT_EQ(FaultyField(problem), "d.transposed");
}

TEST(Validate, ChecksAlignment) {
  Problem problem = DenseProblem(DType::kF64, 3, 5, 7);
  problem.a.alignment_bytes = 4;
  EXPECT_EQ(FaultyField(problem), "a.alignment_bytes");
  problem.a.alignment_bytes = 24;
  EXPECT_EQ(FaultyField(problem), "a.alignment_bytes");
  problem.a.alignment_bytes = 256;
  EXPECT_EQ(FaultyField(problem), "");
  problem.d.alignment_bytes = 0;
  EXPECT_EQ(FaultyField(problem), "d.alignment_bytes");
}

TEST(Problem, SaysWhatIsRead) {
  Problem problem = Valid();
  EXPECT_TRUE(ReadsAB(problem));
  EXPECT_FALSE(ReadsC(problem));
  problem.alpha = 0;
  problem.beta = -0.0;
  EXPECT_FALSE(ReadsAB(problem));
  EXPECT_FALSE(ReadsC(problem));
  problem.alpha = 1e-60;
  problem.beta = 1e-60;
  EXPECT_FALSE(ReadsAB(problem));  // rounded to f32 it is 0
  EXPECT_FALSE(ReadsC(problem));
  problem.dtype = DType::kF64;
  EXPECT_TRUE(ReadsAB(problem));
  EXPECT_TRUE(ReadsC(problem));
  problem.beta = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(ReadsC(problem));
  problem.k = 0;
  EXPECT_FALSE(ReadsAB(problem));
}

TEST(Problem, CountsExtents) {
  const MatrixLayout layout{.ld = 10, .batch_stride = 100};
  EXPECT_EQ(ExtentElements({3, 4}, layout, 1), 24);
  EXPECT_EQ(ExtentElements({3, 4}, layout, 5), 424);
  EXPECT_EQ(ExtentElements({3, 4}, {.ld = 10}, 5), 24);  // one matrix for the batch
  EXPECT_EQ(ExtentElements({0, 4}, layout, 5), 0);
  EXPECT_EQ(ExtentElements({3, 0}, layout, 5), 0);
  EXPECT_EQ(ExtentElements({3, 4}, layout, 0), 0);
}

TEST(Problem, DenseIsPacked) {
  const Problem problem = Valid();
  EXPECT_EQ(problem.a.ld, 7);
  EXPECT_EQ(problem.a.batch_stride, 21);
  EXPECT_EQ(problem.b.ld, 5);
  EXPECT_EQ(problem.b.batch_stride, 35);
  EXPECT_EQ(problem.d.ld, 5);
  EXPECT_EQ(problem.d.batch_stride, 15);
  EXPECT_EQ(problem.c, problem.d);
  EXPECT_DOUBLE_EQ(FlopCount(problem), 2.0 * 3 * 5 * 7 * 2);
}

}  // namespace
}  // namespace gemm
