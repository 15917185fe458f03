#include "kernels/select.h"

#include <gtest/gtest.h>

#include <array>

namespace gemm {
namespace {

struct Row {
  const char* name;
  double seconds;
  const char* why_not = "";
};

// A family that is only its answers.
class FakeFamily : public KernelFamily {
 public:
  explicit FakeFamily(std::vector<Row> rows) : rows_(std::move(rows)) {
    for (const Row& row : rows_) configs_.push_back({.name = row.name});
  }

  std::string_view name() const override { return "fake"; }
  std::span<const KernelConfig> configs() const override { return configs_; }
  std::string WhyNot(const Problem&, const DeviceInfo&, int config) const override {
    return rows_[static_cast<size_t>(config)].why_not;
  }
  double ModelSeconds(const Problem&, const DeviceInfo&, int config) const override {
    return rows_[static_cast<size_t>(config)].seconds;
  }
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
  const Selection selection = Explain(kProblem, {}, families_);
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
  const Selection selection = Explain(kProblem, {}, families_, "never");
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

}  // namespace
}  // namespace gemm
