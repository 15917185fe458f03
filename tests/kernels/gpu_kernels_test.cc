// Every kernel on a real GPU. A machine without one fails here: it was asked for by label.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/bench/device_check.h"
#include "kernels/bench/prepared_launch.h"
#include "kernels/bench/timing.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "tests/kernels/wrong_family.h"

#define ASSERT_CUDA(expression)                                      \
  do {                                                               \
    const cudaError_t cuda_error = (expression);                     \
    ASSERT_EQ(cuda_error, cudaSuccess) << CudaErrorText(cuda_error); \
  } while (false)

namespace gemm {
namespace {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA(cudaSetDevice(0));
    ASSERT_CUDA(ReadDeviceInfo(0, &device_));
  }

  DeviceInfo device_;
};

class GpuKernels : public GpuTest, public ::testing::WithParamInterface<DType> {};

std::string Text(const CheckReport& report) {
  std::string text;
  for (size_t i = 0; i < report.failures.size() && i < 20; ++i) {
    const CheckFailure& failure = report.failures[i];
    text += failure.kernel + ": " + failure.case_name + ": " + failure.checker + ": " +
            failure.fault + "\n";
  }
  return text;
}

TEST_P(GpuKernels, AreRightOnEveryShape) {
  const CheckReport report = CheckFamilies(Families(), device_, GetParam(), CaseSet::kFull);
  EXPECT_EQ(report.failed(), 0) << Text(report);
  std::set<std::string> checked;
  for (const KernelTally& tally : report.kernels) {
    EXPECT_GT(tally.passed, 0) << tally.kernel;
    checked.insert(tally.kernel);
  }
  for (const KernelFamily* family : Families()) {
    for (const KernelConfig& config : family->configs()) {
      if (config.dtype != GetParam()) continue;
      EXPECT_EQ(checked.count(std::string(config.name)), 1u) << config.name;
    }
  }
}

TEST_P(GpuKernels, ReachBeyond32BitIndices) {
  const CheckReport report = CheckLarge(Families(), device_, GetParam());
  EXPECT_EQ(report.failed(), 0) << Text(report);
  EXPECT_GT(report.passed(), 0);
}

// The class is a promise about bits, so it is checked against its definition, not only kernel
// against kernel.
TEST_F(GpuTest, KernelsSumAsTheSequentialClassDefines) {
  Problem problem = DenseProblem(DType::kF32, 67, 45, 333);
  problem.alpha = 0.1;
  problem.beta = -0.7;
  const CaseData<float> data = MakeCaseData<float>({"bits", problem, Fill::kReals}, 7);
  const std::vector<float> expected = SequentialResult<float>(problem, data);
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer c;
  DeviceBuffer d;
  Stream stream;
  ASSERT_CUDA(stream.Create());
  const auto upload = [](const HostOperand<float>& from, int64_t elements, DeviceBuffer* to) {
    const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
    GEMM_RETURN_IF_CUDA_ERROR(to->Create(bytes));
    GEMM_RETURN_IF_CUDA_ERROR(cudaMemcpy(to->data(), from.data(), bytes, cudaMemcpyHostToDevice));
    return cudaDeviceSynchronize();
  };
  ASSERT_CUDA(upload(data.a, problem.m * problem.k, &a));
  ASSERT_CUDA(upload(data.b, problem.k * problem.n, &b));
  ASSERT_CUDA(upload(data.c, problem.m * problem.n, &c));
  ASSERT_CUDA(upload(data.d, problem.m * problem.n, &d));
  const Operands operands{a.data(), b.data(), c.data(), d.data()};
  for (const KernelFamily* family : Families()) {
    ASSERT_CUDA(family->Prepare(device_));
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelConfig& kernel = family->configs()[config];
      if (kernel.dtype != DType::kF32 || kernel.numerics != NumericsClass::kSequential) continue;
      PreparedLaunch launch;
      ASSERT_CUDA(launch.Create({family, static_cast<int>(config)}, {&problem, 1}, {&operands, 1},
                                device_));
      ASSERT_CUDA(launch.Launch(stream.get()));
      ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
      std::vector<float> result(expected.size());
      ASSERT_CUDA(cudaMemcpy(result.data(), d.data(), result.size() * sizeof(float),
                             cudaMemcpyDeviceToHost));
      EXPECT_EQ(std::memcmp(result.data(), expected.data(), result.size() * sizeof(float)), 0)
          << kernel.name;
    }
  }
}

// An operand that is not read may be a null pointer, and several problems may go in one launch.
TEST_P(GpuKernels, RunSeveralProblemsAndLeaveNullsAlone) {
  const size_t size = SizeOf(GetParam());
  Problem zero = DenseProblem(GetParam(), 33, 65, 17, 2);
  zero.alpha = 0;
  const Problem empty = DenseProblem(GetParam(), 33, 0, 17);
  const Problem no_sum = DenseProblem(GetParam(), 5, 9, 0);
  const std::array<Problem, 3> problems = {zero, empty, no_sum};
  const size_t zero_bytes = size * 33 * 65 * 2;
  const size_t bytes = zero_bytes + size * 5 * 9;
  DeviceBuffer d;
  Stream stream;
  ASSERT_CUDA(stream.Create());
  ASSERT_CUDA(d.Create(bytes));
  const std::array<Operands, 3> operands = {
      Operands{.d = d.data()}, Operands{},
      Operands{.d = static_cast<char*>(d.data()) + zero_bytes}};
  for (const KernelFamily* family : Families()) {
    ASSERT_CUDA(family->Prepare(device_));
    for (size_t config = 0; config < family->configs().size(); ++config) {
      if (family->configs()[config].dtype != GetParam()) continue;
      ASSERT_CUDA(cudaMemsetAsync(d.data(), 0xff, bytes, stream.get()));
      PreparedLaunch launch;
      ASSERT_CUDA(launch.Create({family, static_cast<int>(config)}, problems, operands, device_));
      ASSERT_CUDA(launch.Launch(stream.get()));
      ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
      std::vector<char> result(bytes);
      ASSERT_CUDA(cudaMemcpy(result.data(), d.data(), bytes, cudaMemcpyDeviceToHost));
      EXPECT_EQ(result, std::vector<char>(bytes, 0)) << family->configs()[config].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuKernels, ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& type) { return std::string(NameOf(type.param)); });

class WrongKernels : public GpuTest {
 protected:
  // The checkers that caught a kernel.
  static std::set<std::string> Caught(const CheckReport& report, const std::string& kernel) {
    std::set<std::string> checkers;
    for (const CheckFailure& failure : report.failures) {
      if (failure.kernel == kernel) checkers.insert(failure.checker);
    }
    return checkers;
  }
};

TEST_F(WrongKernels, AreCaughtByEachCheckThatShould) {
  const std::array<const KernelFamily*, 2> families = {&WrongFamily(), Families().back()};
  const CheckReport report = CheckFamilies(families, device_, DType::kF32, CaseSet::kQuick);
  using Names = std::set<std::string>;
  for (const char* kernel : {"wrong_f32_slab", "wrong_f32_tail", "wrong_f32_row"}) {
    const Names caught = Caught(report, kernel);
    EXPECT_EQ(caught.count("exact"), 1u) << kernel;
    EXPECT_EQ(caught.count("bounded"), 1u) << kernel;
    EXPECT_EQ(caught.count("class"), 1u) << kernel;
  }
  EXPECT_EQ(Caught(report, "wrong_f32_reads_c").count("exact"), 1u);
  EXPECT_EQ(Caught(report, "wrong_f32_outside").count("canaries"), 1u);
  EXPECT_EQ(Caught(report, "wrong_f32_backward"), Names{"class"});
  EXPECT_EQ(Caught(report, "wrong_f32_unstable").count("repeat"), 1u);
  EXPECT_EQ(Caught(report, "reference_f32"), Names{});
}

TEST_F(WrongKernels, AreCaughtBySamples) {
  const std::array<const KernelFamily*, 1> families = {&WrongFamily()};
  const CheckReport report = CheckLarge(families, device_, DType::kF32);
  for (const char* kernel : {"wrong_f32_slab", "wrong_f32_tail", "wrong_f32_row"}) {
    EXPECT_EQ(Caught(report, kernel).count("large"), 1u) << kernel;
  }
}

TEST_F(WrongKernels, GetNoTime) {
  const std::array<const KernelFamily*, 2> families = {&WrongFamily(), Families().back()};
  std::vector<KernelTiming> timings;
  ASSERT_CUDA(TimeKernels(families, device_, DenseProblem(DType::kF32, 65, 66, 67), {}, &timings));
  int timed = 0;
  for (const KernelTiming& timing : timings) {
    if (timing.kernel == "reference_f32") {
      EXPECT_EQ(timing.fault, "");
      EXPECT_GT(timing.seconds, 0);
    }
    if (timing.kernel == "wrong_f32_slab" || timing.kernel == "wrong_f32_tail" ||
        timing.kernel == "wrong_f32_row" || timing.kernel == "wrong_f32_backward") {
      EXPECT_NE(timing.fault, "") << timing.kernel;
      EXPECT_EQ(timing.seconds, 0) << timing.kernel;
      ++timed;
    }
  }
  EXPECT_EQ(timed, 4);
}

TEST_F(GpuTest, DeviceFactsAreThere) {
  EXPECT_GE(device_.compute_capability, 80);
  EXPECT_EQ(device_.uuid.substr(0, 4), "GPU-");
  EXPECT_EQ(device_.uuid.size(), 40u);
  EXPECT_GT(device_.f32_flops_per_second, 1e12);
  EXPECT_GT(device_.f64_flops_per_second, 1e10);
  EXPECT_GT(device_.memory_bytes_per_second, 1e11);
  EXPECT_GT(device_.l2_bytes, 0u);
}

}  // namespace
}  // namespace gemm
