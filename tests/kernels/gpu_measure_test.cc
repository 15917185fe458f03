// Measuring, on a GPU: no kernel that is wrong gets a time.

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/bench/measure.h"
#include "kernels/bench/repetition.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "tests/kernels/wrong_family.h"

namespace gemm {
namespace {

class MeasureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(ReadDeviceInfo(0, &device_), cudaSuccess);
    for (const KernelFamily* family : families_) {
      ASSERT_EQ(family->Prepare(device_), cudaSuccess) << family->name();
    }
  }

  // The times of one product by name.
  std::map<std::string, KernelTime> Measure(const Problem& problem) {
    Workbench bench(device_);
    EXPECT_EQ(bench.Create(), cudaSuccess);
    MeasureOptions options;
    options.hopeless = std::numeric_limits<double>::infinity();  // wrong kernels have no model
    options.samples = 100;
    std::vector<KernelTime> times;
    const cudaError_t error = MeasureKernels(bench, problem, families_, options, &times);
    EXPECT_EQ(error, cudaSuccess) << CudaErrorText(error);
    std::map<std::string, KernelTime> by_name;
    for (const KernelTime& time : times) by_name[std::string(time.kernel.get().name)] = time;
    return by_name;
  }

  DeviceInfo device_;
  const std::array<const KernelFamily*, 3> families_ = {&WrongFamily(), Families().front(),
                                                        Families().back()};
};

TEST_F(MeasureTest, WrongKernelsGetNoTime) {
  std::map<std::string, KernelTime> times = Measure(DenseProblem(DType::kF32, 65, 66, 67));
  ASSERT_EQ(times.count("reference_f32"), 1u);
  EXPECT_EQ(times["reference_f32"].fault, "");
  EXPECT_GT(times["reference_f32"].seconds.median, 0);
  for (const char* kernel :
       {"wrong_f32_slab", "wrong_f32_tail", "wrong_f32_row", "wrong_f32_backward"}) {
    ASSERT_EQ(times.count(kernel), 1u) << kernel;
    EXPECT_NE(times[kernel].fault, "") << kernel;
    EXPECT_EQ(times[kernel].seconds.median, 0) << kernel;
  }
}

TEST_F(MeasureTest, WhatIsSeldomWrongIsFoundByRepeating) {
  const Problem problem = DenseProblem(DType::kF32, 65, 66, 67);
  Workbench bench(device_);
  ASSERT_EQ(bench.Create(), cudaSuccess);
  ASSERT_EQ(ForgetWrongLaunches(), cudaSuccess);
  Repetition repetition(bench, problem);
  ASSERT_EQ(repetition.Create(), cudaSuccess);
  for (const KernelFamily* family : families_) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelRef kernel{family, static_cast<int>(config)};
      const std::string_view name = kernel.get().name;
      if (name == "wrong_f32_seldom" || name == "wrong_f32_row" || name == "reference_f32") {
        ASSERT_EQ(repetition.Add(kernel), cudaSuccess) << name;
      }
    }
  }
  ASSERT_EQ(repetition.Run(0.1), cudaSuccess);
  ASSERT_EQ(repetition.contenders().size(), 3u);
  for (const Repetition::Contender& contender : repetition.contenders()) {
    const std::string_view name = contender.kernel.get().name;
    EXPECT_EQ(contender.fault.empty(), name != "wrong_f32_row") << name << contender.fault;
    EXPECT_EQ(contender.compared > 0, name != "wrong_f32_row") << name;
    EXPECT_EQ(contender.different > 0, name == "wrong_f32_seldom") << name;
  }
}

}  // namespace
}  // namespace gemm
