// Where the bytes of a batch lie and what shares a launch: host arithmetic, no GPU.

#include "server/engine/cuda_batch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "server/engine/kernel_choices.h"

namespace gemm {
namespace {

// Puts the operands that it is given into its arguments, one after another.
class RecordingFamily final : public KernelFamily {
 public:
  explicit RecordingFamily(size_t workspace_bytes = 0) : workspace_bytes_(workspace_bytes) {}

  static constexpr int kAlone = 0;
  static constexpr int kGrouping = 1;

  std::string_view name() const override { return "recording"; }
  std::span<const KernelConfig> configs() const override { return kConfigs; }
  std::string WhyNot(const Problem&, const DeviceInfo&, int) const override { return {}; }
  double ModelSeconds(const Problem&, const DeviceInfo&, int) const override { return 1; }
  cudaError_t Prepare(const DeviceInfo&) const override { return cudaSuccess; }
  bool Groups(int config) const override { return config == kGrouping; }

  Plan MakePlan(std::span<const Problem> problems, const DeviceInfo&, int config) const override {
    Plan plan;
    plan.config = config;
    plan.launches = 1;
    plan.args_bytes = problems.size() * sizeof(Operands) + 100;
    plan.device_args_bytes = config == kGrouping ? problems.size() * sizeof(Operands) : 0;
    plan.workspace_bytes = workspace_bytes_;
    return plan;
  }
  void Encode(const Plan&, std::span<const Problem> problems, std::span<const Operands> operands,
              void* args) const override {
    ASSERT_EQ(problems.size(), operands.size());
    std::memcpy(args, operands.data(), operands.size_bytes());
  }
  cudaError_t Launch(const Plan&, const void*, const void*, void*, cudaStream_t) const override {
    return cudaSuccess;
  }

 private:
  static constexpr std::array<KernelConfig, 2> kConfigs = {
      {{"recording_alone", DType::kF32, NumericsClass::kSequential},
       {"recording_grouping", DType::kF32, NumericsClass::kSequential}}};
  const size_t workspace_bytes_;
};

class CudaBatchTest : public testing::Test {
 protected:
  // A job of products of 8 x 8 x 8, each operand and result in 256 bytes of its own.
  Job& AddJob(int products, size_t output_bytes = 256) {
    auto& job = *jobs_.emplace_back(std::make_unique<Job>());
    for (int i = 0; i < products; ++i) {
      JobProduct& product = job.products.emplace_back();
      product.problem = DenseProblem(DType::kF32, 8, 8, 8);
      product.a = {static_cast<size_t>(i) * 512, 256};
      product.b = {static_cast<size_t>(i) * 512 + 256, 256};
      product.output_offset_bytes = static_cast<size_t>(i) * AlignedSize(output_bytes);
      product.output_bytes = output_bytes;
    }
    job.input = *pool_->Allocate(static_cast<size_t>(products) * 512);
    job.output = *pool_->Allocate(static_cast<size_t>(products) * AlignedSize(output_bytes));
    return job;
  }

  void AddTask(Job& job, int product, const KernelFamily& family, int config) {
    KernelChoice choice{.alone = {&family, RecordingFamily::kAlone}, .grouped = {}};
    if (config == RecordingFamily::kGrouping) choice.grouped = {&family, config};
    tasks_.push_back({&job, &job.products[product], choice});
  }

  // The operands that the batch gives to each of its launches' tasks.
  std::vector<std::vector<Operands>> OperandsOf(const CudaBatch& batch) {
    std::vector<std::byte> args(batch.args_bytes());
    batch.Encode(base_, args.data());
    std::vector<std::vector<Operands>> result;
    for (const CudaLaunch& launch : batch.launches()) {
      auto& operands = result.emplace_back(launch.tasks.size());
      std::memcpy(operands.data(), args.data() + launch.args_offset,
                  operands.size() * sizeof(Operands));
    }
    return result;
  }

  // Stands for device memory; nothing is written there.
  std::vector<std::byte> device_memory_ = std::vector<std::byte>(1 << 20);
  std::byte* const base_ = device_memory_.data() + (1 << 14);
  const RecordingFamily family_{0};
  const RecordingFamily with_workspace_{1000};
  const DeviceInfo device_{};
  PageableMemory memory_;
  std::shared_ptr<HostPool> pool_ = HostPool::Create(memory_, uint64_t{1} << 30);
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<CudaTask> tasks_;
};

TEST_F(CudaBatchTest, ProductsOfAGroupingConfigurationShareALaunchAndOthersDoNot) {
  Job& first = AddJob(3);
  Job& second = AddJob(1);
  AddTask(first, 0, family_, RecordingFamily::kAlone);
  AddTask(first, 1, family_, RecordingFamily::kGrouping);
  AddTask(first, 2, family_, RecordingFamily::kAlone);
  AddTask(second, 0, family_, RecordingFamily::kGrouping);
  CudaBatch batch(tasks_, device_, CudaRoad::kShort);

  ASSERT_EQ(batch.launches().size(), 3u);
  const CudaLaunch& group = batch.launches()[0];  // its table has to be brought in: first
  ASSERT_EQ(group.tasks.size(), 2u);
  EXPECT_EQ(group.tasks[0].product, &first.products[1]);
  EXPECT_EQ(group.tasks[1].product, &second.products[0]);
  EXPECT_EQ(batch.launches()[1].tasks[0].product, &first.products[0]);
  EXPECT_EQ(batch.launches()[2].tasks[0].product, &first.products[2]);
  EXPECT_EQ(batch.table_bytes(), 2 * sizeof(Operands));
  EXPECT_GE(batch.args_bytes(), batch.launches()[2].args_offset + sizeof(Operands) + 100);
}

TEST_F(CudaBatchTest, OperandsLieInTheJobsCopyAndResultsInItsMemory) {
  Job& first = AddJob(2);
  Job& second = AddJob(1);
  second.products[0].b.size_bytes = 0;  // not read
  AddTask(first, 0, family_, RecordingFamily::kGrouping);
  AddTask(first, 1, family_, RecordingFamily::kGrouping);
  AddTask(second, 0, family_, RecordingFamily::kGrouping);
  CudaBatch batch(tasks_, device_, CudaRoad::kShort);

  ASSERT_EQ(batch.copies_in().size(), 2u);  // one a job
  EXPECT_EQ(batch.copies_in()[0].host, first.input.data());
  EXPECT_EQ(batch.copies_in()[0].bytes, 1024u);
  EXPECT_TRUE(batch.copies_out().empty());
  const auto operands = OperandsOf(batch)[0];
  for (size_t i = 0; i < 2; ++i) {
    std::byte* const input = base_ + batch.copies_in()[0].device_offset;
    EXPECT_EQ(operands[i].a, input + i * 512);
    EXPECT_EQ(operands[i].b, input + i * 512 + 256);
    EXPECT_EQ(operands[i].c, nullptr);
    EXPECT_EQ(operands[i].d, first.output.data() + i * 256);
  }
  EXPECT_EQ(operands[2].a, base_ + batch.copies_in()[1].device_offset);
  EXPECT_EQ(operands[2].b, nullptr);
  EXPECT_EQ(operands[2].d, second.output.data());
}

TEST_F(CudaBatchTest, NothingInDeviceMemoryOverlaps) {
  Job& first = AddJob(2);
  Job& second = AddJob(2, kMostDirectBytes + 1);
  for (Job* job : {&first, &second}) {
    AddTask(*job, 0, with_workspace_, RecordingFamily::kGrouping);
    AddTask(*job, 1, family_, RecordingFamily::kGrouping);
  }
  CudaBatch batch(tasks_, device_, CudaRoad::kLong);
  std::vector<std::pair<size_t, size_t>> ranges = {{0, 1000},
                                                   {batch.tables_offset(), batch.table_bytes()}};
  for (const CudaCopy& copy : batch.copies_in())
    ranges.emplace_back(copy.device_offset, copy.bytes);
  for (const CudaCopy& copy : batch.copies_out()) {
    ranges.emplace_back(copy.device_offset, copy.bytes);
  }
  EXPECT_EQ(ranges.size(), 6u);
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i].first + ranges[i].second, batch.device_bytes());
    for (size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(ranges[i].first + ranges[i].second <= ranges[j].first ||
                  ranges[j].first + ranges[j].second <= ranges[i].first)
          << i << " and " << j;
    }
  }
}

TEST_F(CudaBatchTest, AFewResultsOfLaunchesWithoutWorkspaceAreDirect) {
  Job& plain = AddJob(1);
  Job& worked = AddJob(1);
  AddTask(plain, 0, family_, RecordingFamily::kAlone);
  AddTask(worked, 0, with_workspace_, RecordingFamily::kAlone);
  {
    CudaBatch batch(tasks_, device_, CudaRoad::kShort);
    ASSERT_EQ(batch.copies_out().size(), 1u);
    EXPECT_EQ(batch.copies_out()[0].host, worked.output.data());
    const auto operands = OperandsOf(batch);
    EXPECT_EQ(operands[0][0].d, plain.output.data());
    EXPECT_EQ(operands[1][0].d, base_ + batch.copies_out()[0].device_offset);
  }
  {
    CudaBatch batch(tasks_, device_, CudaRoad::kLong);
    EXPECT_EQ(batch.copies_out().size(), 2u);
  }
  Job& large = AddJob(1, kMostDirectBytes);  // together they are too many
  AddTask(large, 0, family_, RecordingFamily::kAlone);
  CudaBatch batch(tasks_, device_, CudaRoad::kShort);
  EXPECT_EQ(batch.copies_out().size(), 3u);
}

TEST_F(CudaBatchTest, ResultsSideBySideAreCopiedOutTogetherAndNoOthers) {
  Job& job = AddJob(5, 200);
  for (const int product : {0, 1, 3, 4}) {  // the third was computed before
    AddTask(job, product, family_, RecordingFamily::kAlone);
  }
  CudaBatch batch(tasks_, device_, CudaRoad::kLong);
  ASSERT_EQ(batch.copies_out().size(), 2u);
  EXPECT_EQ(batch.copies_out()[0].host, job.output.data());
  EXPECT_EQ(batch.copies_out()[0].bytes, 456u);
  EXPECT_EQ(batch.copies_out()[1].host, job.output.data() + 768);
  EXPECT_EQ(batch.copies_out()[1].bytes, 456u);
}

TEST_F(CudaBatchTest, OneWithoutCompanyRunsAsItDoesAlone) {
  Job& job = AddJob(2);
  AddTask(job, 0, family_, RecordingFamily::kGrouping);
  AddTask(job, 1, family_, RecordingFamily::kAlone);
  CudaBatch batch(tasks_, device_, CudaRoad::kShort);
  for (const CudaLaunch& launch : batch.launches()) {
    EXPECT_EQ(launch.kernel.config, RecordingFamily::kAlone);
  }
  EXPECT_EQ(batch.table_bytes(), 0u);
}

TEST_F(CudaBatchTest, MatricesThatStayAreUsedWhereTheyLie) {
  class Matrix final : public DeviceMatrix {
   public:
    explicit Matrix(void* data) : DeviceMatrix(0, {DType::kF32, 8, 8}, data) {}
  };
  Job& job = AddJob(2);
  job.products[0].a.matrix = std::make_shared<Matrix>(base_ - 4096);
  job.products[0].a.offset_bytes = 64;
  job.products[0].result = std::make_shared<Matrix>(base_ - 8192);
  job.products[0].output_bytes = 0;
  AddTask(job, 0, family_, RecordingFamily::kGrouping);
  AddTask(job, 1, family_, RecordingFamily::kGrouping);
  CudaBatch batch(tasks_, device_, CudaRoad::kLong);
  ASSERT_EQ(batch.copies_out().size(), 1u);
  EXPECT_EQ(batch.copies_out()[0].host, job.output.data() + 256);
  const auto operands = OperandsOf(batch)[0];
  EXPECT_EQ(operands[0].a, base_ - 4096 + 64);
  EXPECT_EQ(operands[0].b, base_ + batch.copies_in()[0].device_offset + 256);
  EXPECT_EQ(operands[0].d, base_ - 8192);
}

TEST_F(CudaBatchTest, OperandsOnAnotherDeviceAreCopiedOver) {
  Job& job = AddJob(1);
  JobProduct& product = job.products[0];
  const DeviceMatrix elsewhere(1, {DType::kF32, 8, 8}, base_ - 4096);
  product.b.matrix = std::shared_ptr<const DeviceMatrix>(std::shared_ptr<void>(), &elsewhere);
  product.b.offset_bytes = 64;
  const InputSpan b = product.b;
  AddTask(job, 0, family_, RecordingFamily::kGrouping);
  CudaBatch batch(tasks_, device_, CudaRoad::kLong);
  ASSERT_EQ(batch.copies_over().size(), 1u);
  const CudaCopyOver& over = batch.copies_over()[0];
  EXPECT_EQ(over.from, base_ - 4096 + 64);
  EXPECT_EQ(over.from_device, 1);
  EXPECT_EQ(over.bytes, b.size_bytes);
  EXPECT_EQ(OperandsOf(batch)[0][0].b, base_ + over.device_offset);
  // Beside what else lies in the batch's memory.
  EXPECT_LE(over.device_offset + over.bytes, batch.device_bytes());
  const CudaCopy& in = batch.copies_in()[0];
  EXPECT_TRUE(over.device_offset >= in.device_offset + in.bytes ||
              over.device_offset + over.bytes <= in.device_offset);
  const CudaCopy& out = batch.copies_out()[0];
  EXPECT_TRUE(over.device_offset >= out.device_offset + out.bytes ||
              over.device_offset + over.bytes <= out.device_offset);
}

TEST(KernelChoicesTest, AsksOnceForAProblemAndAgainWhenAnythingOfItDiffers) {
  const RecordingFamily family;
  KernelChoices choices;
  int asked = 0;
  const auto choose = [&](const Problem& problem) {
    ++asked;
    return KernelChoice{.alone = {&family, problem.m > 100 ? 1 : 0}, .grouped = {}};
  };
  Problem problem = DenseProblem(DType::kF32, 64, 64, 64);
  EXPECT_EQ(choices.Get(problem, choose).alone.config, 0);
  EXPECT_EQ(choices.Get(problem, choose).alone.config, 0);
  EXPECT_EQ(asked, 1);
  problem.a.alignment_bytes = 16;
  choices.Get(problem, choose);
  EXPECT_EQ(asked, 2);
  problem.beta = 1;
  choices.Get(problem, choose);
  EXPECT_EQ(asked, 3);
  // More shapes than it remembers: each still gets its own.
  for (int64_t m = 1; m <= 2000; ++m) {
    const Problem other = DenseProblem(DType::kF32, m, 3, 5);
    EXPECT_EQ(choices.Get(other, choose).alone.config, m > 100 ? 1 : 0);
  }
}

}  // namespace
}  // namespace gemm
