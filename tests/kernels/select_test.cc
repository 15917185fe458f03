#include "kernels/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace gemm {
namespace {

// Not sequential; which one does not matter.
constexpr auto kOtherClass = static_cast<NumericsClass>(1);

struct Row {
  const char* name;
  double seconds;
  const char* why_not = "";
  NumericsClass numerics = NumericsClass::kSequential;
  bool groups = false;
};

// A family that is only its answers.
class FakeFamily : public KernelFamily {
 public:
  explicit FakeFamily(std::vector<Row> rows) : rows_(std::move(rows)) {
    for (const Row& row : rows_) {
      configs_.push_back({.name = row.name, .numerics = row.numerics});
    }
  }

  std::string_view name() const override { return "fake"; }
  std::span<const KernelConfig> configs() const override { return configs_; }
  std::string WhyNot(const Problem& problem, const DeviceInfo&, int config) const override {
    std::string why_not = rows_[static_cast<size_t>(config)].why_not;
    const bool aligned = problem.a.alignment_bytes >= 16;
    if (why_not == "aligned only") return aligned ? "" : why_not;
    if (why_not == "unaligned only") return aligned ? why_not : "";
    return why_not;
  }
  // Seconds for each matrix of the batch.
  double ModelSeconds(const Problem& problem, const DeviceInfo&, int config) const override {
    return rows_[static_cast<size_t>(config)].seconds * static_cast<double>(problem.batch_count);
  }
  bool Groups(int config) const override { return rows_[static_cast<size_t>(config)].groups; }
  cudaError_t Prepare(const DeviceInfo&) const override { return cudaSuccess; }
  Plan MakePlan(std::span<const Problem>, const DeviceInfo&, int) const override { return {}; }
  void Encode(const Plan&, std::span<const Problem>, std::span<const Operands>,
              void*) const override {}
  cudaError_t Launch(const Plan&, const void*, const void*, void*, cudaStream_t) const override {
    return cudaSuccess;
  }

 private:
  const std::vector<Row> rows_;
  std::vector<KernelConfig> configs_;
};

const Problem kProblem = DenseProblem(DType::kF32, 3, 5, 7);

class SelectTest : public ::testing::Test {
 protected:
  std::string Chosen(const Selection& selection) {
    return selection.kernel.family == nullptr ? "" : std::string(selection.kernel.get().name);
  }

  const FakeFamily first_{{{"a", 3}, {"b", 2}, {"never", 0, "it is only for squares"}}};
  const FakeFamily second_{{{"c", 2}, {"d", 5}}};
  const std::array<const KernelFamily*, 2> families_ = {&first_, &second_};
};

TEST_F(SelectTest, TakesTheLeastTimeAndTheEarlierOfATie) {
  const Selection selection = Select(kProblem, {}, families_);
  EXPECT_EQ(Chosen(selection), "b");  // c is as fast, but later
  EXPECT_EQ(selection.reason, "modelled");
  EXPECT_TRUE(selection.candidates.empty());
}

TEST_F(SelectTest, OrderOfFamiliesBreaksTies) {
  const std::array<const KernelFamily*, 2> reversed = {&second_, &first_};
  EXPECT_EQ(Chosen(Select(kProblem, {}, reversed)), "c");
}

TEST_F(SelectTest, ExplainsEveryCandidateInOrder) {
  const Selection selection = Selector({}, families_).Explain(kProblem);
  EXPECT_EQ(Chosen(selection), "b");
  ASSERT_EQ(selection.candidates.size(), 5u);
  EXPECT_EQ(selection.candidates[0].kernel.get().name, "a");
  EXPECT_EQ(selection.candidates[0].modelled_seconds, 3);
  EXPECT_EQ(selection.candidates[2].why_not, "it is only for squares");
  EXPECT_EQ(selection.candidates[2].modelled_seconds, 0);
  EXPECT_EQ(selection.candidates[4].kernel.get().name, "d");
}

TEST_F(SelectTest, ForcedKernelsWinWhateverTheirTime) {
  const Selection selection = Select(kProblem, {}, families_, "d");
  EXPECT_EQ(Chosen(selection), "d");
  EXPECT_EQ(selection.reason, "forced");
}

TEST_F(SelectTest, ForcedKernelsThatCannotRunAreNotReplaced) {
  const Selection selection = Selector({}, families_).Explain(kProblem, "never");
  EXPECT_EQ(Chosen(selection), "");
  EXPECT_EQ(selection.reason, "never: it is only for squares");
  EXPECT_EQ(selection.candidates.size(), 1u);
}

TEST_F(SelectTest, ForcedNamesMustExist) {
  const Selection selection = Select(kProblem, {}, families_, "b2");
  EXPECT_EQ(Chosen(selection), "");
  EXPECT_EQ(selection.reason, "no kernel is named b2");
}

TEST_F(SelectTest, SaysWhenThereIsNoChoice) {
  const FakeFamily one({{"no", 1, "too small"}, {"yes", 9}});
  const std::array<const KernelFamily*, 1> families = {&one};
  const Selection selection = Select(kProblem, {}, families);
  EXPECT_EQ(Chosen(selection), "yes");
  EXPECT_EQ(selection.reason, "only one");
}

TEST_F(SelectTest, NothingLegalIsNoKernel) {
  const FakeFamily none({{"no", 1, "too small"}});
  const std::array<const KernelFamily*, 1> families = {&none};
  const Selection selection = Select(kProblem, {}, families);
  EXPECT_EQ(selection.kernel.family, nullptr);
  EXPECT_EQ(selection.reason, "no kernel can run it");
  EXPECT_EQ(Select(kProblem, {}, {}).kernel.family, nullptr);
}

// Tables.

Problem Aligned(Problem problem) {
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->alignment_bytes = 256;
  }
  return problem;
}

Problem AlignedProduct(int64_t m, int64_t n, int64_t k, int64_t batch_count = 1) {
  return Aligned(DenseProblem(DType::kF32, m, n, k, batch_count));
}

TuningRow MeasuredRow(const Problem& problem, std::vector<MeasuredKernel> kernels) {
  TuningRow row{.m = problem.m, .n = problem.n, .k = problem.k};
  row.batch_count = problem.batch_count;
  row.place = PlaceOf(Aligned(problem));
  std::copy(kernels.begin(), kernels.end(), row.kernels.begin());
  return row;
}

TEST_F(SelectTest, AMeasuredRowOverrulesTheModel) {
  const std::array<TuningRow, 1> rows = {MeasuredRow(kProblem, {{"d", 4e6}, {"b", 9e6}})};
  const TuningTable table{90, 132, rows};
  const Selection selection = Selector({}, families_, table).Explain(kProblem);
  EXPECT_EQ(Chosen(selection), "d");
  EXPECT_EQ(selection.reason, "measured");
  EXPECT_EQ(selection.row, &rows[0]);
  EXPECT_EQ(selection.candidates[0].corrected_seconds, 0);
  EXPECT_DOUBLE_EQ(selection.candidates[1].corrected_seconds, 9);
  EXPECT_DOUBLE_EQ(selection.candidates[4].corrected_seconds, 4);
  EXPECT_EQ(Chosen(Select(kProblem, {}, families_, {}, table)), "d");
}

TEST_F(SelectTest, RowsOfKernelsThatAreGoneOrCannotRunArePassedOver) {
  const std::array<TuningRow, 1> rows = {
      MeasuredRow(kProblem, {{"removed", 2.5e6}, {"never", 2.8e6}, {"a", 3e6}})};
  const Selection selection = Select(kProblem, {}, families_, {}, {90, 132, rows});
  EXPECT_EQ(Chosen(selection), "a");
  EXPECT_EQ(selection.reason, "measured");
}

TEST_F(SelectTest, WithoutAUsableRowTheModelDecides) {
  const std::array<TuningRow, 1> gone = {MeasuredRow(kProblem, {{"removed", 1}})};
  EXPECT_EQ(Select(kProblem, {}, families_, {}, {90, 132, gone}).reason, "modelled");
  const std::array<TuningRow, 1> far = {MeasuredRow(AlignedProduct(4096, 4096, 4096), {{"d", 1}})};
  const Selection selection = Select(kProblem, {}, families_, {}, {90, 132, far});
  EXPECT_EQ(Chosen(selection), "b");
  EXPECT_EQ(selection.reason, "modelled");
  EXPECT_EQ(selection.row, nullptr);
}

TEST_F(SelectTest, RowsOfAnotherTypeSayNothing) {
  std::array<TuningRow, 1> rows = {MeasuredRow(kProblem, {{"d", 1e6}})};
  EXPECT_EQ(Chosen(Select(kProblem, {}, families_, {}, {90, 132, rows})), "d");
  rows[0].dtype = DType::kF64;
  EXPECT_EQ(Chosen(Select(kProblem, {}, families_, {}, {90, 132, rows})), "b");
}

TEST_F(SelectTest, ForcedKernelsAskNoTable) {
  const std::array<TuningRow, 1> rows = {MeasuredRow(kProblem, {{"d", 4}})};
  EXPECT_EQ(Chosen(Select(kProblem, {}, families_, "a", {90, 132, rows})), "a");
}

TEST_F(SelectTest, AProductWithoutASumAsksNoTable) {
  const std::array<TuningRow, 1> rows = {
      MeasuredRow(DenseProblem(DType::kF32, 3, 5, 1), {{"d", 4}})};
  const Problem empty_sum = DenseProblem(DType::kF32, 3, 5, 0);
  EXPECT_EQ(Select(empty_sum, {}, families_, {}, {90, 132, rows}).reason, "modelled");
}

// A measured time is carried over by what the model says of the way from the row to the problem:
// "steep" doubles where "flat" does not.
class SlopeFamily final : public FakeFamily {
 public:
  SlopeFamily() : FakeFamily({{"steep", 1}, {"flat", 1}}) {}
  double ModelSeconds(const Problem& problem, const DeviceInfo&, int config) const override {
    return config == 0 ? static_cast<double>(problem.k) : 100;
  }
};

TEST(SelectMeasured, CarriesTimesOverByTheModelsRatio) {
  const SlopeFamily family;
  const std::array<const KernelFamily*, 1> families = {&family};
  const std::array<TuningRow, 1> rows = {
      MeasuredRow(AlignedProduct(8, 8, 64), {{"steep", 64e6}, {"flat", 80e6}})};
  const TuningTable table{90, 132, rows};
  const auto chosen = [&](int64_t k) {
    return Select(AlignedProduct(8, 8, k), {}, families, {}, table).kernel.get().name;
  };
  EXPECT_EQ(chosen(64), "steep");
  EXPECT_EQ(chosen(76), "steep");
  EXPECT_EQ(chosen(88), "flat");  // 64 s * 88 / 64 > 80 s; the model says 88 and 100
}

// "a" is modelled at 3 s, "b" at 2 s.
TEST_F(SelectTest, CorrectionsFadeWithDistance) {
  const std::array<TuningRow, 1> rows = {
      MeasuredRow(AlignedProduct(64, 64, 64), {{"a", 1.5e6}, {"b", 2e6}})};
  const TuningTable table{90, 132, rows};
  const auto seconds = [&](int64_t m) {
    return Selector({}, families_, table)
        .Explain(AlignedProduct(m, 64, 64))
        .candidates[0]
        .corrected_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(64), 1.5);
  EXPECT_NEAR(seconds(128), 3 * std::pow(0.5, 1 / (1 + 1.0 / 2)), 1e-9);  // beside the model's vote
  EXPECT_NEAR(seconds(256), 3 * std::pow(0.5, 0.25 / (0.25 + 1.0 / 2)), 1e-9);
  EXPECT_EQ(Chosen(Select(AlignedProduct(8192, 64, 64), {}, families_, {}, table)), "b");
  EXPECT_EQ(Select(AlignedProduct(8192, 64, 64), {}, families_, {}, table).reason, "modelled");
}

TEST_F(SelectTest, NearRowsAreWeighedAgainstEachOther) {
  const std::array<TuningRow, 2> rows = {
      MeasuredRow(AlignedProduct(64, 64, 32), {{"a", 1.5e6}, {"b", 2e6}}),
      MeasuredRow(AlignedProduct(64, 64, 256), {{"b", 2e6}, {"a", 3e6}})};
  const TuningTable table{90, 132, rows};
  const auto seconds = [&](int64_t k) {
    return Selector({}, families_, table)
        .Explain(AlignedProduct(64, 64, k))
        .candidates[0]
        .corrected_seconds;
  };
  EXPECT_NEAR(seconds(64), 3 * std::pow(0.5, 1 / (1 + 1.0 / 4 + 1.0 / 2)), 1e-9);
  EXPECT_NEAR(seconds(128), 3 * std::pow(0.5, 0.25 / (1 + 1.0 / 4 + 1.0 / 2)), 1e-9);
  EXPECT_EQ(seconds(32), 1.5);  // a row of its own speaks alone
}

// That a row does not name a kernel says that it was slow there, whatever the model says.
TEST_F(SelectTest, KernelsThatARowDoesNotNameWereSlowThere) {
  const std::array<TuningRow, 1> rows = {MeasuredRow(kProblem, {{"a", 2.5e6}})};
  const TuningTable table{90, 132, rows};
  const Selection selection = Selector({}, families_, table).Explain(kProblem);
  EXPECT_EQ(Chosen(selection), "a");  // b and c, 2 s modelled, took more than 3.75 s
  EXPECT_EQ(selection.candidates[1].corrected_seconds, 0);
  // Where it could not run, the row says nothing of it.
  const FakeFamily family({{"named", 3}, {"unaligned", 2, "unaligned only"}});
  const std::array<const KernelFamily*, 1> families = {&family};
  const std::array<TuningRow, 1> other = {MeasuredRow(kProblem, {{"named", 2.5e6}})};
  EXPECT_EQ(Chosen(Select(kProblem, {}, families, {}, {90, 132, other})), "unaligned");
}

// A full row had no room for others: all that is known is that they were slower than its last.
TEST_F(SelectTest, KernelsThatAFullRowDoesNotNameMayBeNearlyAsFast) {
  std::vector<MeasuredKernel> kernels(kKernelsARow, {"removed", 3.1e6});
  kernels[0] = {"a", 3e6};
  const std::array<TuningRow, 1> full = {MeasuredRow(kProblem, kernels)};
  const std::array<TuningRow, 1> not_full = {MeasuredRow(kProblem, {kernels[0], kernels[1]})};
  const Problem twice = DenseProblem(DType::kF32, 6, 5, 7);
  // a is modelled at 3 s, and b at 2: if b took at least 3.1 or 4.5 s at the row, it is 2.68
  // or 3.43.
  EXPECT_EQ(Chosen(Select(twice, {}, families_, {}, {90, 132, full})), "b");
  EXPECT_EQ(Chosen(Select(twice, {}, families_, {}, {90, 132, not_full})), "a");
}

// However wrong the model is, what it puts at more than 2.5 times what another takes is not taken.
TEST_F(SelectTest, RowsDoNotSaveWhatIsModelledHopeless) {
  const FakeFamily family({{"slow", 9}, {"fast", 2}});
  const std::array<const KernelFamily*, 1> families = {&family};
  const auto chosen = [&](double fast_microseconds) {
    const std::array<TuningRow, 1> rows = {
        MeasuredRow(kProblem, {{"slow", 1e6}, {"fast", fast_microseconds}})};
    return Chosen(Select(kProblem, {}, families, {}, {90, 132, rows}));
  };
  EXPECT_EQ(chosen(3.5e6), "fast");
  EXPECT_EQ(chosen(3.7e6), "slow");
}

// How a result sums is settled without a look at batch and alignment: the fastest kernel of another
// class is not taken for them.
TEST(SelectClass, DependsOnNeitherBatchNorAlignment) {
  const FakeFamily family({{"split", 1, "aligned only", kOtherClass},
                           {"split_any", 5, "", kOtherClass},
                           {"sequential", 3}});
  const std::array<const KernelFamily*, 1> families = {&family};
  Problem problem = DenseProblem(DType::kF32, 64, 64, 512);
  EXPECT_EQ(problem.a.alignment_bytes, 4);
  EXPECT_EQ(Select(problem, {}, families).kernel.get().name, "split_any");
  problem.a.alignment_bytes = 16;
  EXPECT_EQ(Select(problem, {}, families).kernel.get().name, "split");
  const Problem batch = DenseProblem(DType::kF32, 64, 64, 512, 9);
  EXPECT_EQ(Select(batch, {}, families).kernel.get().name, "split_any");
}

// A class binds batches too, so it has to be worth it.
TEST(SelectClass, IsSequentialUnlessAnotherIsClearlyFaster) {
  const auto chosen = [](double split_seconds) {
    const FakeFamily family({{"split", split_seconds, "", kOtherClass}, {"sequential", 5e-6}});
    const std::array<const KernelFamily*, 1> families = {&family};
    return std::string(
        Select(DenseProblem(DType::kF32, 64, 64, 512), {}, families).kernel.get().name);
  };
  EXPECT_EQ(chosen(4.8e-6), "sequential");
  EXPECT_EQ(chosen(4.6e-6), "split");
}

TEST(SelectClass, OfAMeasuredBatchIsThatOfOneProduct) {
  const FakeFamily family({{"split", 1, "", kOtherClass}, {"sequential", 2}, {"sequential2", 2.4}});
  const std::array<const KernelFamily*, 1> families = {&family};
  Problem one = DenseProblem(DType::kF32, 64, 64, 512);
  Problem batch = DenseProblem(DType::kF32, 64, 64, 512, 16);
  for (Problem* problem : {&one, &batch}) {
    for (MatrixLayout* layout : {&problem->a, &problem->b, &problem->d}) {
      layout->alignment_bytes = 256;
    }
  }
  const std::array<TuningRow, 2> rows = {
      MeasuredRow(one, {{"sequential", 5e6}, {"split", 6e6}}),
      MeasuredRow(batch, {{"split", 70e6}, {"sequential2", 80e6}, {"sequential", 90e6}})};
  const TuningTable table{90, 132, rows};
  EXPECT_EQ(Select(one, {}, families, {}, table).kernel.get().name, "sequential");
  EXPECT_EQ(Select(batch, {}, families, {}, table).kernel.get().name, "sequential2");
}

TEST(SelectClass, GivesWayWhereNoKernelOfItIsLegal) {
  const FakeFamily family({{"split", 1, "aligned only", kOtherClass}, {"sequential", 3}});
  const std::array<const KernelFamily*, 1> families = {&family};
  const Problem problem = DenseProblem(DType::kF32, 64, 64, 512);
  EXPECT_EQ(Select(problem, {}, families).kernel.get().name, "sequential");
}

KernelRef Grouped(const Problem& problem, std::span<const KernelFamily* const> families) {
  const Selector selector({}, families);
  return selector.SelectForGroup(problem, selector.Select(problem).kernel);
}

// A product in a group has the bits that it has alone: the class that Select settles on, though not
// its kernel.
TEST(SelectForGroupTest, TakesTheFastestOfTheClassThatGroups) {
  const FakeFamily family({{"split", 1, "", kOtherClass},
                           {"sequential_group", 2, "", NumericsClass::kSequential, true},
                           {"split_slow_group", 5, "", kOtherClass, true},
                           {"split_group", 4, "", kOtherClass, true},
                           {"split_never", 2, "it is only for squares", kOtherClass, true}});
  const std::array<const KernelFamily*, 1> families = {&family};
  const Problem problem = DenseProblem(DType::kF32, 64, 64, 512);
  EXPECT_EQ(Select(problem, {}, families).kernel.get().name, "split");
  EXPECT_EQ(Grouped(problem, families).get().name, "split_group");
  const FakeFamily alone({{"split", 1, "", kOtherClass},
                          {"sequential_group", 2, "", NumericsClass::kSequential, true}});
  const std::array<const KernelFamily*, 1> none = {&alone};
  EXPECT_EQ(Grouped(problem, none).family, nullptr);
  // Without a sum there is no class to keep to.
  EXPECT_EQ(Grouped(DenseProblem(DType::kF32, 64, 64, 0), none).get().name, "sequential_group");
}

}  // namespace
}  // namespace gemm
