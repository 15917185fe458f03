#include "kernels/tuning/tuning_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/measured_times.h"
#include "kernels/registry.h"

namespace gemm {
namespace {

Problem Aligned(Problem problem) {
  problem.a.ld = StoredA(problem).columns;
  problem.b.ld = StoredB(problem).columns;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.d}) layout->alignment_bytes = 256;
  return problem;
}

Place PlaceAt(int64_t m, int64_t n, int64_t k, int64_t batch_count = 1) {
  return PlaceOf(Aligned(DenseProblem(DType::kF32, m, n, k, batch_count)));
}

TEST(PlaceOfTest, CountsSixteenthsOfAnOctave) {
  const std::pair<int64_t, int> values[] = {{1, 0},
                                            {2, 16},
                                            {3, 25},  // log2 is 1.585
                                            {4, 32},
                                            {1023, 159},
                                            {1024, 160},
                                            {1025, 160},
                                            {int64_t{1} << 40, 640},
                                            {std::numeric_limits<int64_t>::max(), 1007}};
  for (const auto& [size, log2] : values) {
    Problem problem = DenseProblem(DType::kF32, 1, 1, 1);
    problem.k = size;
    EXPECT_EQ(PlaceOf(problem).k, log2) << size;
  }
}

TEST(SquaredDistanceTest, IsThatOfOctavesAndLayouts) {
  const Place place = PlaceAt(64, 64, 64);
  EXPECT_EQ(SquaredDistance(place, place), 0);
  EXPECT_EQ(SquaredDistance(place, PlaceAt(128, 64, 64)), 1);
  EXPECT_EQ(SquaredDistance(place, PlaceAt(64, 16, 64)), 4);
  EXPECT_EQ(SquaredDistance(place, PlaceAt(128, 32, 128)), 3);
  EXPECT_EQ(SquaredDistance(PlaceAt(64, 64, 64, 4), place), 1);  // a batch says less
  Problem other = DenseProblem(DType::kF32, 64, 64, 64);
  other.a.transposed = true;
  EXPECT_EQ(SquaredDistance(place, PlaceOf(Aligned(other))), 6.25);
  other = Aligned(other);
  other.d.alignment_bytes = 4;
  EXPECT_EQ(SquaredDistance(place, PlaceOf(other)), 12.5);
}

TEST(PlaceOfTest, TellsRaggedRowsOfEachOperand) {
  const auto layout_of = [](int64_t m, int64_t n, int64_t k, bool transpose_a = false) {
    Problem problem = DenseProblem(DType::kF32, m, n, k);
    problem.a.transposed = transpose_a;
    return static_cast<int>(PlaceOf(Aligned(problem)).layout);
  };
  constexpr int kA = 4;
  constexpr int kB = 8;
  constexpr int kD = 16;
  EXPECT_EQ(layout_of(1001, 1024, 1024), 0);             // no row is m long
  EXPECT_EQ(layout_of(1001, 1024, 1024, true), 1 + kA);  // now A's are
  EXPECT_EQ(layout_of(1024, 1022, 1024), kB + kD);
  EXPECT_EQ(layout_of(1024, 1024, 1023), kA);
  EXPECT_EQ(layout_of(1024, 1, 1024), 0);  // a row of one element is as good as any
  Problem padded = DenseProblem(DType::kF32, 64, 63, 64);
  EXPECT_EQ(PlaceOf(padded).layout, kA + kB + kD);
  for (MatrixLayout* layout : {&padded.a, &padded.b, &padded.d}) layout->alignment_bytes = 256;
  padded.b.ld = padded.d.ld = 64;
  EXPECT_EQ(PlaceOf(padded).layout, 0);
  // Eight bytes are two f32 or one f64.
  EXPECT_EQ(PlaceOf(Aligned(DenseProblem(DType::kF64, 6, 6, 6))).layout, 0);
}

// What generated files say of a row is what PlaceOf says of its product.
TEST(TuningFor, PlacesRowsWhereTheirProductsAre) {
  for (const TuningRow& row : TuningFor(H200()).rows) {
    EXPECT_EQ(row.place, PlaceOf(ProductOf(row))) << row.m << " " << row.n << " " << row.k;
    EXPECT_FALSE(Validate(ProductOf(row)));
  }
}

std::vector<size_t> NumbersOf(const NearPlaces& found) {
  std::vector<size_t> numbers;
  for (const NearPlaces::Near& near : found.span()) numbers.push_back(near.number);
  return numbers;
}

Places PlacesOf(const std::vector<Place>& all) {
  Places places;
  for (const Place& place : all) places.Add(place);
  return places;
}

TEST(PlacesTest, TheNearestComeFirst) {
  enum : size_t { kSmall, kMiddle, kDeep };
  const Places places = PlacesOf({PlaceAt(16, 64, 64), PlaceAt(64, 64, 64), PlaceAt(64, 64, 4096)});
  using Numbers = std::vector<size_t>;
  const auto nearest = [&](int64_t m, int64_t k) {
    return NumbersOf(places.Nearest(PlaceAt(m, 64, k)));
  };
  EXPECT_EQ(nearest(64, 64), Numbers({kMiddle, kSmall}));  // 6 octaves are too far
  EXPECT_EQ(nearest(16, 64), Numbers({kSmall, kMiddle}));
  EXPECT_EQ(nearest(32, 64), Numbers({kSmall, kMiddle}));  // a tie: the earlier first
  EXPECT_EQ(nearest(64, 128), Numbers({kMiddle, kSmall, kDeep}));
  EXPECT_EQ(nearest(int64_t{1} << 20, 64), Numbers());
  EXPECT_EQ(Places().Nearest(PlaceAt(1, 1, 1)).count, 0u);
}

// All that is near in size and layout, by looking at each.
TEST(PlacesTest, AreTheNearestOfAnyLayout) {
  uint64_t state = 1;
  const auto below = [&state](uint64_t limit) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<int16_t>((state >> 33) % limit);
  };
  const auto place = [&] {
    return Place{below(200), below(200), below(200), below(64),
                 static_cast<uint8_t>(below(kLayouts))};
  };
  std::vector<Place> all(1000);
  std::generate(all.begin(), all.end(), place);
  const Places places = PlacesOf(all);
  for (int i = 0; i < 100; ++i) {
    const Place at = place();
    std::vector<std::pair<double, size_t>> expected;
    for (size_t number = 0; number < all.size(); ++number) {
      const double squared_distance = SquaredDistance(all[number], at);
      if (squared_distance < 36) expected.emplace_back(squared_distance, number);
    }
    std::sort(expected.begin(), expected.end());
    expected.resize(std::min(expected.size(), NearPlaces::kMost));
    std::vector<std::pair<double, size_t>> found;
    for (const NearPlaces::Near& near : places.Nearest(at).span()) {
      found.emplace_back(near.squared_distance, near.number);
    }
    EXPECT_EQ(found, expected);
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
          EXPECT_EQ(family->WhyNot(ProductOf(row), H200(), static_cast<int>(config)), "")
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
                {{DType::kF32, {8, 8, 9}, {{"slow", 9}, {"second", 2}, {"first", 1.5}}},
                 {DType::kF32, {4, 8, 8}, {{"old", 7}}},
                 {DType::kF32, {4, 8, 8, 1, false, true}, {{"t", 1}}},
                 {DType::kF32, {4, 8, 8}, {{"new", 3.14159}}}});
  EXPECT_NE(text.find("// a card\n"), std::string::npos);
  EXPECT_NE(text.find("std::array<TuningRow, 3> kTest"), std::string::npos);
  const size_t four =
      text.find("Row(kF32, \"NN\",      4,      8,      8,     1, {{\"new\", 3.142}}),");
  const size_t eight = text.find(
      "Row(kF32, \"NN\",      8,      8,      9,     1, {{\"first\", 1.5}, {\"second\", 2}}),");
  const size_t transposed = text.find("Row(kF32, \"NT\",      4,      8,      8,     1,");
  EXPECT_NE(four, std::string::npos) << text;
  EXPECT_LT(four, eight);
  EXPECT_LT(eight, transposed);
  EXPECT_EQ(text.find("slow"), std::string::npos);
  EXPECT_EQ(text.find("old"), std::string::npos);
}

TEST(RecordedTable, HasTheRowsThatTheTextWouldHave) {
  const RecordedTable recorded(
      {{DType::kF32, {8, 8, 9}, {{"slow", 9}, {"second", 2}, {"first", 1.5}}},
       {DType::kF32, {4, 8, 8, 1, true}, {{"old", 7}}},
       {DType::kF32, {4, 8, 8, 1, true}, {{"new", 3}}}});
  const std::span<const TuningRow> rows = recorded.table().rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kernels[1].kernel, "second");
  EXPECT_EQ(rows[0].kernels[1].microseconds, 2);
  EXPECT_EQ(rows[0].kernels[2].kernel, "");  // slow
  EXPECT_EQ(rows[0].place, PlaceOf(ProductOf(rows[0])));
  EXPECT_EQ(rows[1].m, 4);
  EXPECT_TRUE(rows[1].transpose_a);
  EXPECT_EQ(rows[1].kernels[0].kernel, "new");
  EXPECT_EQ(rows[1].kernels[1].kernel, "");
  const Problem product = BenchProblem({4, 8, 8, 1, true}, DType::kF32);
  EXPECT_EQ(SquaredDistance(rows[1].place, PlaceOf(product)), 0);
}

}  // namespace
}  // namespace gemm
