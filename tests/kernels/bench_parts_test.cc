// The parts of gemm_bench that are arithmetic: statistics, shapes in words, the articles' claims.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "kernels/bench/claims.h"
#include "kernels/bench/shape_lists.h"
#include "kernels/bench/shapes.h"
#include "kernels/bench/statistics.h"

namespace gemm {
namespace {

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Summarize({3, 1, 2}).median, 2);
  EXPECT_EQ(Summarize({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(Summarize({7}).median, 7);
}

TEST(Statistics, SpreadLeavesTheOutermostTenthsOut) {
  std::vector<double> values;
  for (int i = 0; i <= 20; ++i) values.push_back(90 + i);
  const Summary summary = Summarize(values);
  EXPECT_EQ(summary.median, 100);
  EXPECT_EQ(summary.p10, 92);
  EXPECT_EQ(summary.p90, 108);
  EXPECT_DOUBLE_EQ(summary.spread(), 0.16);
  values.back() = 1e9;  // one interruption says nothing of the kernel
  EXPECT_EQ(Summarize(values).p90, 108);
}

TEST(Statistics, OfNothingIsNothing) {
  EXPECT_EQ(Summarize({}).median, 0);
  EXPECT_EQ(Summarize({}).spread(), 0);
  EXPECT_EQ(GeometricMean({}), 0);
}

TEST(Statistics, GeometricMeanTakesHalvesAndDoublesForEqual) {
  const double values[] = {0.5, 2, 4, 0.25};
  EXPECT_DOUBLE_EQ(GeometricMean(values), 1);
}

TEST(BenchShapes, AreReadAsTheyAreWritten) {
  const BenchShape plain{4096, 7168, 16384};
  const BenchShape batched{64, 32, 16, 256, false, true};
  EXPECT_EQ(NameOf(plain), "4096x7168x16384");
  EXPECT_EQ(NameOf(batched), "64x32x16b256:NT");
  for (const BenchShape& shape : {plain, batched}) EXPECT_EQ(ParseShape(NameOf(shape)), shape);
  EXPECT_EQ(ParseShape("1x2x3:TN"), (BenchShape{1, 2, 3, 1, true, false}));
}

TEST(BenchShapes, RefusesWhatIsNoShape) {
  for (const char* text :
       {"", "1", "1x2", "1x2x", "0x1x1", "-1x1x1", "1x2x3x4", "1x2x3b", "1x2x3b0",
        "1x2x3:", "1x2x3:T", "1x2x3:NX", "1x2x3:NTN", "1 x2x3", "99999999999999999999x1x1"}) {
    EXPECT_FALSE(ParseShape(text)) << text;
  }
}

TEST(BenchShapes, WordsAreThreeNumbersOrShapes) {
  std::string fault;
  const std::string numbers[] = {"1", "2", "3"};
  EXPECT_EQ(ReadShapes("", numbers, &fault), (std::vector<BenchShape>{{1, 2, 3}}));
  const std::string shapes[] = {"1x2x3", "4x5x6"};
  EXPECT_EQ(ReadShapes("", shapes, &fault), (std::vector<BenchShape>{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(fault, "");
  EXPECT_TRUE(ReadShapes("", {}, &fault).empty());
  EXPECT_NE(fault, "");
  fault.clear();
  EXPECT_TRUE(ReadShapes("list", shapes, &fault).empty());
  EXPECT_NE(fault, "");
  for (const char* list : {"lists", "random", "random:", "random:x", "random:1:", "random:1:x",
                           "spread:", "random:1:4294967296", "spread:1:1000001"}) {
    fault.clear();
    EXPECT_TRUE(ReadShapes(list, {}, &fault).empty()) << list;
    EXPECT_NE(fault, "") << list;
  }
  // Too large to count, in either type or in f64 alone, among others or by itself.
  for (const std::string& large :
       {std::string("3037000500x3037000500x1"), std::string("1x1x1152921504606846976"),
        std::string("8x8x8b2147483648")}) {
    for (const std::vector<std::string>& words :
         {std::vector{large}, std::vector<std::string>{"4x4x4", large}}) {
      fault.clear();
      EXPECT_TRUE(ReadShapes("", words, &fault).empty()) << large;
      EXPECT_TRUE(fault.starts_with(large + ": ")) << fault;
      EXPECT_NE(fault.find("at most"), std::string::npos) << fault;
    }
  }
}

TEST(BenchShapes, ListsAreValidAndWithoutRepeats) {
  for (const char* list :
       {"list", "deepbench", "golden", "random:1", "random:2:200", "spread:1:200"}) {
    std::string fault;
    const std::vector<BenchShape> shapes = ReadShapes(list, {}, &fault);
    EXPECT_EQ(fault, "") << list;
    std::set<std::string> names;
    for (const BenchShape& shape : shapes) {
      EXPECT_TRUE(names.insert(NameOf(shape)).second) << list << " " << NameOf(shape);
      EXPECT_FALSE(Validate(BenchProblem(shape, DType::kF32))) << NameOf(shape);
    }
    EXPECT_GT(shapes.size(), 20u) << list;
  }
}

TEST(BenchShapes, RandomOnesDependOnTheSeedAlone) {
  EXPECT_EQ(RandomShapes(5, 40), RandomShapes(5, 40));
  EXPECT_NE(RandomShapes(5, 40), RandomShapes(6, 40));
  // The first of a longer list are those of a shorter one.
  const std::vector<BenchShape> few = RandomShapes(5, 10);
  const std::vector<BenchShape> many = RandomShapes(5, 40);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

// Every kind of product that a kernel may be the fastest for is among them.
TEST(BenchShapes, SpreadOnesHaveShortSumsThinSidesAndAlignedRows) {
  const std::vector<BenchShape> shapes = SpreadShapes(5, 240);
  const auto count = [&shapes](auto is) { return std::count_if(shapes.begin(), shapes.end(), is); };
  EXPECT_GT(count([](const BenchShape& s) { return s.k <= 16; }), 40);
  EXPECT_GT(count([](const BenchShape& s) { return s.k >= 1024; }), 40);
  EXPECT_GT(count([](const BenchShape& s) { return std::min(s.m, s.n) <= 8; }), 40);
  EXPECT_GT(count([](const BenchShape& s) { return std::min(s.m, s.n) >= 256; }), 20);
  EXPECT_GT(count([](const BenchShape& s) { return s.n % 4 != 0; }), 60);
  EXPECT_GT(count([](const BenchShape& s) { return s.n % 8 == 0; }), 30);
  EXPECT_GT(count([](const BenchShape& s) { return s.n % 8 == 4; }), 20);
  EXPECT_GT(count([](const BenchShape& s) { return s.transpose_a && s.transpose_b; }), 5);
}

TEST(Shapes, AreValidAndNamedApart) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (CaseSet set : {CaseSet::kQuick, CaseSet::kFull}) {
      std::set<std::string> names;
      for (const CheckCase& check_case : CheckCases(dtype, set)) {
        EXPECT_TRUE(names.insert(check_case.name).second) << check_case.name;
        EXPECT_FALSE(Validate(check_case.problem)) << check_case.name;
        EXPECT_FALSE(IsEmpty(check_case.problem)) << check_case.name;
        EXPECT_EQ(check_case.problem.dtype, dtype);
      }
    }
  }
}

// Kernels that describe every fourth row to the copy engine take each residue another way.
TEST(Shapes, BeginRowsAndMatricesAtEveryResidue) {
  std::set<int64_t> rows_b;
  std::set<int64_t> rows_d;
  std::set<int64_t> matrices_b;
  std::set<int64_t> matrices_d;
  for (const CheckCase& check_case : CheckCases(DType::kF32, CaseSet::kQuick)) {
    const Problem& problem = check_case.problem;
    if (problem.batch_count < 5 || ReadsC(problem) || problem.b.transposed) continue;
    rows_b.insert(problem.b.ld % 4);
    rows_d.insert(problem.d.ld % 4);
    matrices_b.insert(problem.b.batch_stride % 4);
    matrices_d.insert(problem.d.batch_stride % 4);
  }
  for (const auto* residues : {&rows_b, &rows_d, &matrices_b, &matrices_d}) {
    EXPECT_EQ(residues->size(), 4u);
  }
}

const Claim& Find(std::string_view part) {
  for (const Claim& claim : Claims()) {
    if (claim.statement.find(part) != std::string_view::npos) return claim;
  }
  ADD_FAILURE() << part;
  return Claims().front();
}

LadderTimes Times(std::initializer_list<std::pair<std::pair<Rung, int>, double>> tflops) {
  LadderTimes times;
  for (const auto& [key, value] : tflops) times[key] = SquareFlops(key.second) / (value * 1e12);
  return times;
}

TEST(Claims, AreOfTheFiveArticlesAndHaveARange) {
  std::set<std::string_view> articles;
  for (const Claim& claim : Claims()) {
    articles.insert(claim.article);
    EXPECT_LT(claim.low, claim.high) << claim.statement;
  }
  EXPECT_EQ(articles.size(), 5u);
}

TEST(Claims, OfDesignNeedNoTimes) {
  for (const char* part : {"tiles of 16", "tiles of 32", "four times the arithmetic"}) {
    const ClaimVerdict verdict = Judge(Find(part), {}, 67e12);
    EXPECT_TRUE(verdict.measured) << part;
    EXPECT_TRUE(verdict.reproduced) << part << " " << verdict.value;
  }
}

TEST(Claims, OfAPeerAreRatiosAtOneSize) {
  const Claim& claim = Find("42.5 %");
  EXPECT_FALSE(Judge(claim, {}, 67e12).measured);
  EXPECT_FALSE(Judge(claim, Times({{{Rung::kBlocked1d, 2048}, 20}}), 67e12).measured);
  const ClaimVerdict half =
      Judge(claim, Times({{{Rung::kBlocked1d, 2048}, 21.25}, {{Rung::kPeer, 2048}, 50}}), 67e12);
  EXPECT_TRUE(half.measured);
  EXPECT_NEAR(half.value, 0.425, 1e-9);
  EXPECT_TRUE(half.reproduced);
  EXPECT_FALSE(
      Judge(claim, Times({{{Rung::kBlocked1d, 2048}, 30}, {{Rung::kPeer, 2048}, 50}}), 67e12)
          .reproduced);
}

TEST(Claims, TellOneSizeFromTwo) {
  const LadderTimes times =
      Times({{{Rung::kNaive, 512}, 1}, {{Rung::kNaive, 2048}, 5}, {{Rung::kTiled32, 2048}, 9}});
  EXPECT_TRUE(Judge(Find("9x from naive (at 512)"), times, 67e12).reproduced);
  const ClaimVerdict same = Judge(Find("9x from naive to tiled, at one size"), times, 67e12);
  EXPECT_NEAR(same.value, 1.8, 1e-9);
  EXPECT_FALSE(same.reproduced);
}

TEST(Claims, ATimeAndASpeedMustAgree) {
  const ClaimVerdict verdict = Judge(Find("3.9 ms"), {}, 67e12);
  EXPECT_NEAR(verdict.value, 4.4, 0.01);
  EXPECT_FALSE(verdict.reproduced);
}

TEST(Claims, GrowthComparesTwoSpeedups) {
  const Claim& claim = Find("gap widens");
  LadderTimes times = Times({{{Rung::kNaive, 1024}, 4},
                             {{Rung::kNaive, 2048}, 5},
                             {{Rung::kTiled32, 1024}, 8},
                             {{Rung::kTiled32, 2048}, 9}});
  EXPECT_FALSE(Judge(claim, times, 67e12).reproduced);  // 2x, then 1.8x
  times[{Rung::kTiled32, 2048}] /= 2;
  EXPECT_TRUE(Judge(claim, times, 67e12).reproduced);
}

TEST(Claims, TheBestOfASweepBeatsTheOther) {
  const Claim& claim = Find("best microtile");
  LadderTimes times = Times({{{Rung::kCached8x8, 4096}, 10}, {{Rung::kCached8x4, 4096}, 8}});
  EXPECT_TRUE(Judge(claim, times, 67e12).reproduced);
  times[{Rung::kCached8x4, 4096}] = SquareFlops(4096) / 12e12;
  EXPECT_FALSE(Judge(claim, times, 67e12).reproduced);
}

TEST(Rungs, GrowInWhatTheyReuse) {
  EXPECT_EQ(FindRung(Rung::kNaive)->flops_per_global_byte, 0.25);
  EXPECT_EQ(FindRung(Rung::kTiled32)->flops_per_global_byte, 8);
  EXPECT_EQ(FindRung(Rung::kRegister8x8)->flops_per_loaded_byte, 2);
  EXPECT_EQ(FindRung(Rung::kPeer), nullptr);
}

}  // namespace
}  // namespace gemm
