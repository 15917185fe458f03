// Measuring, on a GPU: no kernel that is wrong gets a time.

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "kernels/bench/measure.h"
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
    options.hopeless = 1e9;
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

}  // namespace
}  // namespace gemm
