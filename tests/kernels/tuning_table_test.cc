#include "kernels/tuning/tuning_table.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <set>

#include "kernels/bench/measured_times.h"
#include "kernels/registry.h"
#include "tests/kernels/devices.h"

namespace gemm {
namespace {

TEST(RoundedLog2, TakesTheNearestPower) {
  const std::pair<int64_t, int> values[] = {
      {0, 0},  {1, 0},  {2, 1},     {3, 2},     {5, 2},     {6, 3},
      {11, 3}, {12, 4}, {1448, 10}, {1449, 11}, {4096, 12}, {int64_t{1} << 62, 62}};
  for (const auto& [value, log2] : values) EXPECT_EQ(RoundedLog2(value), log2) << value;
  EXPECT_EQ(RoundedLog2(std::numeric_limits<int64_t>::max()), 63);
}

TEST(ShapeBucket, HoldsWhatRoundsToItsCentre) {
  Problem problem = DenseProblem(DType::kF64, 1000, 5, 33, 3);
  problem.b.transposed = true;
  problem.b.ld = 34;
  problem.a.ld = 34;
  problem.d.ld = 6;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.d}) layout->alignment_bytes = 256;
  const ShapeBucket bucket = BucketOf(problem);
  EXPECT_EQ(bucket, (ShapeBucket{DType::kF64, false, true, 10, 2, 5, 2}));
  const Problem centre = CentreOf(bucket);
  EXPECT_EQ(centre.m, 1024);
  EXPECT_EQ(centre.n, 4);
  EXPECT_EQ(centre.k, 32);
  EXPECT_EQ(centre.batch_count, 4);
  EXPECT_EQ(centre.b.ld, 32);  // stored n x k
  EXPECT_FALSE(Validate(centre));
  EXPECT_EQ(BucketOf(centre), bucket);
}

TEST(ShapeBucket, HoldsRaggedRowsApart) {
  const auto bucket_of = [](int64_t m, int64_t n, int64_t k, bool transpose_a = false) {
    Problem problem = DenseProblem(DType::kF32, m, n, k);
    for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.d}) layout->alignment_bytes = 256;
    problem.a.transposed = transpose_a;
    problem.a.ld = StoredA(problem).columns;
    return BucketOf(problem);
  };
  EXPECT_FALSE(bucket_of(1001, 1024, 1024).ragged);       // no row is m long
  EXPECT_TRUE(bucket_of(1001, 1024, 1024, true).ragged);  // now A's are
  EXPECT_TRUE(bucket_of(1024, 1022, 1024).ragged);
  EXPECT_TRUE(bucket_of(1024, 1024, 1023).ragged);
  EXPECT_FALSE(bucket_of(1024, 1, 1024).ragged);  // a row of one element is as good as any
  Problem padded = DenseProblem(DType::kF32, 64, 63, 64);
  EXPECT_TRUE(BucketOf(padded).ragged);
  for (MatrixLayout* layout : {&padded.a, &padded.b, &padded.d}) layout->alignment_bytes = 256;
  padded.b.ld = padded.d.ld = 64;
  EXPECT_FALSE(BucketOf(padded).ragged);

  const ShapeBucket bucket = bucket_of(1001, 1, 999, true);
  const Problem centre = CentreOf(bucket);
  EXPECT_EQ(centre.m, 1023);
  EXPECT_EQ(centre.n, 1);
  EXPECT_EQ(centre.k, 1023);
  EXPECT_EQ(BucketOf(centre), bucket);
}

TuningRow RowAt(ShapeBucket bucket, std::string_view kernel) {
  TuningRow row;
  row.bucket = bucket;
  row.kernels[0] = {kernel, 1};
  return row;
}

TEST(NearestRows, AreTheBucketsOwnOrTheClosestInOrder) {
  const std::array<TuningRow, 4> rows = {
      RowAt({DType::kF32, false, false, 4, 6, 6, 0}, "small"),
      RowAt({DType::kF32, false, false, 6, 6, 6, 0}, "middle"),
      RowAt({DType::kF32, true, false, 6, 6, 6, 0}, "transposed"),
      RowAt({DType::kF64, false, false, 5, 5, 5, 0}, "f64"),
  };
  const TuningTable table{90, 132, rows};
  using Names = std::vector<std::string_view>;
  const auto nearest = [&](const ShapeBucket& bucket) {
    const NearRows found = NearestRows(table, bucket);
    Names names;
    for (const NearRows::Near& near : found.span()) names.push_back(near.row->kernels[0].kernel);
    return names;
  };
  // Its own row speaks alone.
  EXPECT_EQ(nearest({DType::kF32, false, false, 6, 6, 6, 0}), Names({"middle"}));
  EXPECT_EQ(nearest({DType::kF32, true, false, 6, 6, 6, 0}), Names({"transposed"}));
  EXPECT_EQ(nearest({DType::kF32, false, false, 6, 6, 7, 0}), Names({"middle", "transposed"}));
  EXPECT_EQ(nearest({DType::kF32, false, false, 4, 6, 7, 0}), Names({"small"}));  // others: too far
  EXPECT_EQ(nearest({DType::kF32, false, false, 5, 6, 6, 0}),
            Names({"small", "middle", "transposed"}));  // a tie: the earlier first
  EXPECT_EQ(nearest({DType::kF32, true, false, 6, 6, 6, 1}), Names({"transposed", "middle"}));
  EXPECT_EQ(nearest({DType::kF64, false, false, 5, 6, 6, 0}), Names({"f64"}));  // of its type only
  EXPECT_EQ(nearest({DType::kF32, false, false, 9, 9, 9, 0}), Names());
  EXPECT_EQ(NearestRows({}, {}).count, 0u);
}

TEST(NearestRows, KeepsTheNearestOfMany) {
  std::vector<TuningRow> rows;
  for (int8_t k = 0; k < 12; ++k)
    rows.push_back(RowAt({DType::kF32, false, false, 6, 6, k, 0}, "k"));
  const ShapeBucket bucket{DType::kF32, false, false, 7, 6, 11, 0};
  const NearRows found = NearestRows({90, 132, rows}, bucket);
  ASSERT_GT(found.count, 1u);
  EXPECT_EQ(found.near[0].row->bucket.log2_k, 11);
  for (size_t i = 1; i < found.count; ++i) {
    EXPECT_EQ(found.near[i].row->bucket.log2_k, 11 - static_cast<int>(i));
    EXPECT_GT(found.near[i].distance, found.near[i - 1].distance);
  }
}

TEST(TuningFor, SpeaksForOneKindOfDevice) {
  EXPECT_EQ(TuningFor(H200()).compute_capability, 90);
  DeviceInfo other = H200();
  other.multiprocessors = 114;
  EXPECT_TRUE(TuningFor(other).rows.empty());
  other = H200();
  other.compute_capability = 100;
  EXPECT_TRUE(TuningFor(other).rows.empty());
  EXPECT_TRUE(TuningFor({}).rows.empty());
}

// A kernel that is gone or renamed leaves rows that nobody reads: measure again.
TEST(TuningFor, NamesKernelsOfThisBuildThatCanRunTheRow) {
  for (const TuningRow& row : TuningFor(H200()).rows) {
    double last = 0;
    for (const MeasuredKernel& measured : row.kernels) {
      if (measured.kernel.empty()) break;
      EXPECT_GE(measured.microseconds, last);
      last = measured.microseconds;
      bool found = false;
      for (const KernelFamily* family : Families()) {
        for (size_t config = 0; config < family->configs().size(); ++config) {
          if (family->configs()[config].name != measured.kernel) continue;
          found = true;
          EXPECT_EQ(family->WhyNot(CentreOf(row.bucket), H200(), static_cast<int>(config)), "")
              << measured.kernel;
        }
      }
      EXPECT_TRUE(found) << measured.kernel;
    }
    EXPECT_GT(last, 0);
  }
}

TEST(MeasuredTimes, GoThroughAFileAndBack) {
  const ShapeTimes times{DType::kF64, {64, 32, 16, 4, true, false}, {{"a", 2.5}, {"b", 1}}};
  const std::string path = testing::TempDir() + "/times.jsonl";
  std::ofstream(path) << "{\"kind\":\"run\",\"card\":\"none\"}\n" << ToJsonLines(times);
  std::vector<ShapeTimes> read;
  ASSERT_TRUE(ReadTimes(path, &read));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].dtype, DType::kF64);
  EXPECT_EQ(read[0].shape, times.shape);
  ASSERT_EQ(read[0].kernels.size(), 2u);
  EXPECT_EQ(read[0].kernels[1].kernel, "b");
  EXPECT_EQ(read[0].kernels[0].microseconds, 2.5);
  EXPECT_FALSE(ReadTimes(path + ".none", &read));
  std::ofstream(path) << "not JSON\n";
  EXPECT_FALSE(ReadTimes(path, &read));
}

TEST(TableText, SortsRowsAndKernelsAndKeepsTheBest) {
  const std::string header[] = {"a card"};
  const std::string text =
      TableText("kTest", header,
                {{DType::kF32, {8, 8, 8}, {{"slow", 9}, {"second", 2}, {"first", 1.5}}},
                 {DType::kF32, {4, 8, 8}, {{"old", 7}}},
                 {DType::kF32, {4, 8, 8, 1, false, true}, {{"t", 1}}},
                 {DType::kF32, {4, 8, 8}, {{"new", 3.14159}}}});
  EXPECT_NE(text.find("// a card\n"), std::string::npos);
  EXPECT_NE(text.find("std::array<TuningRow, 3> kTest"), std::string::npos);
  const size_t four =
      text.find("Row(kF32, \"NN\",      4,      8,      8,     1, {{\"new\", 3.142}}),");
  const size_t eight = text.find(
      "Row(kF32, \"NN\",      8,      8,      8,     1, {{\"first\", 1.5}, {\"second\", 2}}),");
  const size_t transposed = text.find("Row(kF32, \"NT\",      4,      8,      8,     1,");
  EXPECT_NE(four, std::string::npos) << text;
  EXPECT_LT(four, eight);
  EXPECT_LT(eight, transposed);
  EXPECT_EQ(text.find("slow"), std::string::npos);
  EXPECT_EQ(text.find("old"), std::string::npos);
}

}  // namespace
}  // namespace gemm
