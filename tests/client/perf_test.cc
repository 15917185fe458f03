// The parts of gemmctl perf that need no server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "client/cli/perf/arrivals.h"
#include "client/cli/perf/latency_histogram.h"
#include "client/cli/perf/load_point.h"
#include "client/cli/perf/perf_report.h"
#include "client/cli/perf/random.h"
#include "client/cli/perf/shape_mix.h"
#include "client/cli/perf/slo.h"
#include "client/cli/perf/tally.h"
#include "client/cli/perf/workload.h"

namespace gemm::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Mixes

TEST(ShapeMixTest, Parses) {
  const absl::StatusOr<ShapeMix> mix = ShapeMix::Parse("64x32x16:8,10x1000x3/f64/ta/tb:0.5,1x1x1");
  ASSERT_TRUE(mix.ok()) << mix.status();
  ASSERT_EQ(mix->shapes().size(), 3u);
  const MixShape& first = mix->shapes()[0];
  EXPECT_EQ(first.m, 64);
  EXPECT_EQ(first.n, 32);
  EXPECT_EQ(first.k, 16);
  EXPECT_EQ(first.type, ElementType::kF32);
  EXPECT_EQ(first.weight, 8);
  EXPECT_EQ(first.payload_bytes(), 4 * (64 * 16 + 16 * 32 + 64 * 32));
  EXPECT_EQ(first.flops(), 2.0 * 64 * 32 * 16);
  EXPECT_EQ(first.name(), "64x32x16/f32");
  const MixShape& second = mix->shapes()[1];
  EXPECT_EQ(second.name(), "10x1000x3/f64/ta/tb");
  EXPECT_EQ(second.d_bytes(), 8 * 10 * 1000);
  EXPECT_EQ(mix->shapes()[2].weight, 1);
  EXPECT_EQ(mix->total_weight(), 9.5);
}

TEST(ShapeMixTest, RefusesWhatItCannotRead) {
  for (const char* text : {"", "64", "64x64", "64x64x64x64", "64x64xq", "64x64x64:", "64x64x64:0",
                           "64x64x64:-1", "64x64x64:nan", "64x64x64:inf", "64x64x64:1:2",
                           "64x64x64/f16", "64x64x64/", "0x64x64", "-1x64x64", "64x64x64,",
                           "100000x100000x1", "1x99999999999x1", "64x64x64:1e308,1x1x1:1e308"}) {
    const absl::StatusOr<ShapeMix> mix = ShapeMix::Parse(text);
    EXPECT_FALSE(mix.ok()) << text;
    EXPECT_THAT(std::string(mix.status().message()), HasSubstr("\"")) << text;
  }
}

TEST(ShapeMixTest, PicksByWeight) {
  const absl::StatusOr<ShapeMix> mix = ShapeMix::Parse("1x1x1:1,2x2x2:6,3x3x3:3");
  ASSERT_TRUE(mix.ok());
  Random random(1, 2);
  std::vector<int> picked(3);
  for (int i = 0; i < 100'000; ++i) ++picked[mix->Pick(random)];
  EXPECT_NEAR(picked[0], 10'000, 500);
  EXPECT_NEAR(picked[1], 60'000, 1000);
  EXPECT_NEAR(picked[2], 30'000, 1000);
}

// Load points

TEST(LoadPointTest, Parses) {
  const auto callers = ParseConcurrency("1,16");
  ASSERT_TRUE(callers.ok());
  EXPECT_EQ(Describe((*callers)[0]), "1 caller");
  EXPECT_EQ(Describe((*callers)[1]), "16 callers");
  EXPECT_FALSE((*callers)[1].open());
  const auto rates = ParseRates("0.5,2000");
  ASSERT_TRUE(rates.ok());
  EXPECT_EQ(Describe((*rates)[0]), "0.5 calls/s");
  EXPECT_TRUE((*rates)[1].open());
  for (const char* text : {"", "0", "-1", "x", "1,", "1.5", "99999"}) {
    EXPECT_FALSE(ParseConcurrency(text).ok()) << text;
  }
  for (const char* text : {"", "0", "-1", "x", "1,", "nan", "inf", "1e9"}) {
    EXPECT_FALSE(ParseRates(text).ok()) << text;
  }
}

// Arrivals

TEST(PoissonArrivalsTest, AreTheSameForTheSameSeed) {
  PoissonArrivals arrivals(1000, Random(42, 0));
  // As they were first: a change would make runs with one seed differ between versions.
  EXPECT_EQ(arrivals.Next(), nanoseconds(672801));
  EXPECT_EQ(arrivals.Next(), nanoseconds(1223085));
  PoissonArrivals again(1000, Random(42, 0));
  EXPECT_EQ(again.Next(), nanoseconds(672801));
  PoissonArrivals other(1000, Random(42, 1));
  EXPECT_NE(other.Next(), nanoseconds(672801));
}

// Gaps of a Poisson process are exponential: mean and standard deviation are the same, a share of
// 1/e is longer than the mean, and one gap says nothing of the next.
TEST(PoissonArrivalsTest, ArePoisson) {
  constexpr int kGaps = 200'000;
  constexpr double kMean = 1e-3;
  PoissonArrivals arrivals(1 / kMean, Random(7, 0));
  double last = 0, sum = 0, squares = 0, products = 0, previous = kMean;
  int longer = 0;
  for (int i = 0; i < kGaps; ++i) {
    const double at = std::chrono::duration<double>(arrivals.Next()).count();
    const double gap = at - last;
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
    products += (gap - kMean) * (previous - kMean);
    longer += gap > kMean ? 1 : 0;
    previous = gap;
    last = at;
  }
  const double mean = sum / kGaps;
  EXPECT_NEAR(mean, kMean, 0.01 * kMean);
  EXPECT_NEAR(std::sqrt(squares / kGaps - mean * mean), kMean, 0.02 * kMean);
  EXPECT_NEAR(longer / static_cast<double>(kGaps), std::exp(-1), 0.005);
  EXPECT_NEAR(products / kGaps / (kMean * kMean), 0, 0.02);
}

// Percentiles

TEST(LatencyHistogramTest, IsWithinItsErrorOfExactRanks) {
  Random random(3, 0);
  LatencyHistogram histogram;
  std::vector<int64_t> exact;
  for (int i = 0; i < 50'000; ++i) {  // over eight powers of ten
    exact.push_back(std::llround(std::pow(10, 1 + 8 * random.Uniform())));
    histogram.Add(nanoseconds(exact.back()));
  }
  std::sort(exact.begin(), exact.end());
  for (const double percent : {0.01, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const auto rank = static_cast<size_t>(std::ceil(percent / 100 * 50'000 - 1e-6));
    const auto value = static_cast<double>(exact[rank - 1]);
    const auto found = static_cast<double>(histogram.Percentile(percent).count());
    EXPECT_GE(found, value) << percent;
    EXPECT_LE(found, value * (1 + 1.0 / 512)) << percent;
  }
  EXPECT_EQ(histogram.max().count(), exact.back());
  EXPECT_EQ(histogram.Percentile(100), histogram.max());
}

TEST(LatencyHistogramTest, RanksAreNearest) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.Add(nanoseconds(i));
  EXPECT_EQ(histogram.Percentile(50).count(), 500);
  EXPECT_EQ(histogram.Percentile(99).count(), 990);
  EXPECT_EQ(histogram.Percentile(99.9).count(), 999);
  EXPECT_EQ(histogram.Percentile(99.91).count(), 1000);
  EXPECT_EQ(histogram.Percentile(0.01).count(), 1);
  EXPECT_EQ(histogram.mean().count(), 501);  // 500.5
}

TEST(LatencyHistogramTest, OneNoneAndExtremes) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Percentile(99).count(), 0);
  EXPECT_EQ(histogram.mean().count(), 0);
  histogram.Add(nanoseconds(-5));
  EXPECT_EQ(histogram.Percentile(50).count(), 0);
  histogram.Add(nanoseconds(INT64_MAX));
  EXPECT_EQ(histogram.Percentile(50).count(), 0);
  EXPECT_EQ(histogram.Percentile(51).count(), INT64_MAX);
}

TEST(LatencyHistogramTest, Merges) {
  LatencyHistogram few, many, all;
  few.Add(milliseconds(900));
  all.Add(milliseconds(900));
  for (int i = 0; i < 99; ++i) {
    many.Add(milliseconds(i));
    all.Add(milliseconds(i));
  }
  many.Merge(few);
  EXPECT_EQ(many.count(), 100);
  EXPECT_EQ(many.mean(), all.mean());
  EXPECT_EQ(many.max(), milliseconds(900));
  for (const double percent : {1.0, 50.0, 99.0, 99.5}) {
    EXPECT_EQ(many.Percentile(percent), all.Percentile(percent));
  }
}

// Bounds

Tally TallyOf(int calls, milliseconds latency, int errors, int unsent) {
  Tally tally;
  for (int i = 0; i < calls; ++i) tally.AddCall(latency, {});
  for (int i = 0; i < errors; ++i) tally.AddError(absl::StatusCode::kUnavailable);
  tally.AddUnsent(unsent);
  return tally;
}

std::vector<std::string> BrokenOf(const char* text, const Tally& tally) {
  const auto bounds = ParseSlo(text);
  EXPECT_TRUE(bounds.ok()) << bounds.status();
  return Broken(*bounds, tally);
}

TEST(SloTest, SaysWhatWasBroken) {
  const Tally tally = TallyOf(99, milliseconds(10), 1, 0);
  EXPECT_THAT(BrokenOf("p50=11ms,p99.9=11ms,max=1s,errors=1,errors=1%", tally), IsEmpty());
  EXPECT_THAT(BrokenOf("p50=1ms,max=9.9ms,p99=1s,errors=0,errors=0.5%", tally),
              ElementsAre(HasSubstr("p50 is 10."), HasSubstr("max is 10.000 ms, over max=9.9ms"),
                          "errors are 1, over errors=0", "errors are 1%, over errors=0.5%"));
}

TEST(SloTest, CallsThatWereNotSentAreErrors) {
  EXPECT_THAT(BrokenOf("errors=9", TallyOf(10, milliseconds(1), 0, 10)),
              ElementsAre("errors are 10, over errors=9"));
  EXPECT_THAT(BrokenOf("errors=40%", TallyOf(10, milliseconds(1), 0, 10)),
              ElementsAre("errors are 50%, over errors=40%"));
}

TEST(SloTest, WithoutAnAnswerNoLatencyIsKept) {
  EXPECT_THAT(BrokenOf("p99=1h", TallyOf(0, {}, 5, 0)), ElementsAre(HasSubstr("p99 is unknown")));
}

TEST(SloTest, RefusesWhatItCannotRead) {
  for (const char* text : {"", "p99", "p99=", "p99=5", "p99=-5ms", "p99=0s", "p0=1s", "p101=1s",
                           "p=1s", "pinf=1s", "q99=1s", "errors=-1", "errors=", "errors=few",
                           "errors=nan", "p99=5ms,", "p99=5ms p50=1ms"}) {
    EXPECT_FALSE(ParseSlo(text).ok()) << text;
  }
}

// Tallies

TEST(TallyTest, SplitsTheMeanCall) {
  Tally tally;
  MultiplyReport report;
  report.admit = absl::Milliseconds(1);
  report.compute = absl::Milliseconds(4);
  const MixShape shape{.m = 10, .n = 10, .k = 10};
  tally.AddCall(milliseconds(20), milliseconds(2));
  tally.AddProduct(shape, report, 0.5);
  tally.AddProduct(shape, report, 0.5);
  Tally sum;
  sum.Merge(tally);
  sum.Merge(tally);
  sum.set_seconds(2);
  EXPECT_EQ(sum.calls(), 2);
  EXPECT_EQ(sum.products(), 4);
  EXPECT_DOUBLE_EQ(sum.calls_per_second(), 1);
  EXPECT_DOUBLE_EQ(sum.gigabytes_per_second(), 4 * 1200 / 2.0 * 1e-9);
  EXPECT_DOUBLE_EQ(sum.teraflops(), 4 * 2000 / 2.0 * 1e-12);
  EXPECT_DOUBLE_EQ(sum.mean_wait_seconds(), 2e-3);
  EXPECT_DOUBLE_EQ(sum.mean_phase_seconds(0), 1e-3);
  EXPECT_DOUBLE_EQ(sum.mean_phase_seconds(5), 4e-3);
  EXPECT_NEAR(sum.mean_rest_seconds(), 13e-3, 1e-9);
}

// Results

template <typename T>
std::vector<std::byte> Product(const MultiplyArgs<T>& args) {
  std::vector<std::byte> bytes(args.m * args.n * sizeof(T));
  T* d = reinterpret_cast<T*>(bytes.data());
  for (int64_t i = 0; i < args.m; ++i) {
    for (int64_t j = 0; j < args.n; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < args.k; ++l) {
        sum += args.a.data[args.a.transposed ? l * args.m + i : i * args.k + l] *
               args.b.data[args.b.transposed ? j * args.k + l : l * args.n + j];
      }
      d[i * args.n + j] = sum;
    }
  }
  return bytes;
}

class WorkloadTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WorkloadTest, TellsRightFromWrong) {
  const absl::StatusOr<ShapeMix> mix = ShapeMix::Parse(GetParam());
  ASSERT_TRUE(mix.ok()) << mix.status();
  const Workload workload(*mix, /*copies=*/2, /*seed=*/1);
  const MixShape& shape = mix->shapes()[0];
  const int64_t elements = shape.m * shape.n;
  std::vector<std::byte> d =
      std::visit([](const auto& args) { return Product(args); }, workload.Args(0, 1, nullptr));
  EXPECT_TRUE(workload.Check(0, 1, d.data()).ok());
  EXPECT_FALSE(workload.Check(0, 0, d.data()).ok());  // another copy's operands

  const auto spoil = [&](int64_t element, double by) {
    std::vector<std::byte> spoiled = d;
    if (shape.type == ElementType::kF32) {
      reinterpret_cast<float*>(spoiled.data())[element] += static_cast<float>(by);
    } else {
      reinterpret_cast<double*>(spoiled.data())[element] += by;
    }
    return workload.Check(0, 1, spoiled.data());
  };
  const double off = shape.type == ElementType::kF32 ? 1e-3 : 1e-11;
  const absl::Status wrong = spoil(elements - 1, off);
  EXPECT_TRUE(absl::IsDataLoss(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr(shape.name()));
  EXPECT_FALSE(spoil(elements - 1, NAN).ok());
  EXPECT_FALSE(spoil(elements - 1, INFINITY).ok());
}

INSTANTIATE_TEST_SUITE_P(Shapes, WorkloadTest,
                         ::testing::Values("1x1x1", "7x5x3/f64", "33x17x70/ta", "33x17x70/f64/tb",
                                           "20x30x40/ta/tb", "600x500x3"));

// A tile, a row or a column of a product too large to be checked whole.
TEST(WorkloadTest, SamplesFindWrongRegions) {
  const absl::StatusOr<ShapeMix> mix = ShapeMix::Parse("600x500x2");
  ASSERT_TRUE(mix.ok());
  const Workload workload(*mix, 1, 1);
  std::vector<std::byte> d =
      std::visit([](const auto& args) { return Product(args); }, workload.Args(0, 0, nullptr));
  const auto with_wrong = [&](auto wrong) {
    std::vector<std::byte> spoiled = d;
    for (int64_t e = 0; e < int64_t{600} * 500; ++e) {
      if (wrong(e / 500, e % 500)) reinterpret_cast<float*>(spoiled.data())[e] = 9;
    }
    return workload.Check(0, 0, spoiled.data()).ok();
  };
  EXPECT_TRUE(with_wrong([](int64_t, int64_t) { return false; }));
  EXPECT_FALSE(with_wrong([](int64_t i, int64_t) { return i == 599; }));
  EXPECT_FALSE(with_wrong([](int64_t, int64_t j) { return j == 499; }));
  EXPECT_FALSE(with_wrong([](int64_t i, int64_t j) { return i / 32 == 3 && j / 32 == 5; }));
}

// The header

TEST(LinkTest, IsToldByTheAddress) {
  EXPECT_EQ(LinkOf("127.0.0.1:50051"), "loopback");
  EXPECT_EQ(LinkOf("localhost:50051"), "loopback");
  EXPECT_EQ(LinkOf("[::1]:50051"), "loopback");
  EXPECT_EQ(LinkOf("dns:///localhost:50051"), "loopback");
  EXPECT_EQ(LinkOf("unix:/run/gemmd"), "unix socket");
  EXPECT_EQ(LinkOf("gpu7:50051"), "network");
  EXPECT_EQ(LinkOf("dns:///gpu7:50051"), "network");
}

}  // namespace
}  // namespace gemm::cli
