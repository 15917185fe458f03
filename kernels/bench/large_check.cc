#include <algorithm>
#include <string>
#include <vector>

#include "kernels/bench/device_check.h"
#include "kernels/bench/device_fill.h"
#include "kernels/bench/prepared_launch.h"
#include "kernels/bench/sampled_check.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr int kSamples = 200;

struct LargeCase {
  const char* name;
  Problem problem;
};

// Each has one or more operands that a 32-bit index does not reach; k stays where sums of integers
// are exact.
std::vector<LargeCase> LargeCases(DType dtype) {
  constexpr int64_t kLong = 65537;
  constexpr int64_t kShort = 32771;
  static_assert(kLong * kShort > int64_t{1} << 31);
  const auto transposed = [](Problem problem, bool a, bool b) {
    problem.a.transposed = a;
    problem.b.transposed = b;
    problem.a.ld = StoredA(problem).columns;
    problem.b.ld = StoredB(problem).columns;
    return problem;
  };
  const Problem large_a = DenseProblem(dtype, kLong, 3, kShort);
  const Problem large_b = DenseProblem(dtype, 3, kLong, kShort);
  Problem large_d = DenseProblem(dtype, kLong, kShort, 5);

  constexpr int64_t kFar = (int64_t{1} << 30) + 1;
  Problem far_rows = DenseProblem(dtype, 3, 7, 3);
  far_rows.a.ld = far_rows.b.ld = far_rows.d.ld = kFar;
  for (MatrixLayout* layout : {&far_rows.a, &far_rows.b, &far_rows.d}) layout->batch_stride = 0;
  Problem far_batch = DenseProblem(dtype, 5, 7, 9, 3);
  far_batch.a.batch_stride = far_batch.b.batch_stride = far_batch.d.batch_stride = kFar;
  return {
      {"large A", large_a},
      {"large A transposed", transposed(large_a, true, false)},
      {"large B", large_b},
      {"large B transposed", transposed(large_b, false, true)},
      {"large D", large_d},
      {"rows 2^30 apart", far_rows},
      {"matrices 2^30 apart", far_batch},
  };
}

cudaError_t CheckOne(const LargeCase& large, std::span<const KernelFamily* const> families,
                     const DeviceInfo& device, std::string_view only, CheckReport* report) {
  const Problem& problem = large.problem;
  const size_t size = SizeOf(problem.dtype);
  const int64_t a_elements = ExtentElements(StoredA(problem), problem.a, problem.batch_count);
  const int64_t b_elements = ExtentElements(StoredB(problem), problem.b, problem.batch_count);
  const int64_t d_elements = ExtentElements(StoredC(problem), problem.d, problem.batch_count);
  Stream stream;
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer d;
  GEMM_RETURN_IF_CUDA_ERROR(stream.Create());
  GEMM_RETURN_IF_CUDA_ERROR(a.Create(static_cast<size_t>(a_elements) * size));
  GEMM_RETURN_IF_CUDA_ERROR(b.Create(static_cast<size_t>(b_elements) * size));
  GEMM_RETURN_IF_CUDA_ERROR(d.Create(static_cast<size_t>(d_elements) * size));
  const SampledOperands operands{Fill::kIntegers, 11, 12, 13};
  GEMM_RETURN_IF_CUDA_ERROR(DeviceFill(problem.dtype, a.data(), a_elements, operands.fill,
                                       operands.seed_a, stream.get()));
  GEMM_RETURN_IF_CUDA_ERROR(DeviceFill(problem.dtype, b.data(), b_elements, operands.fill,
                                       operands.seed_b, stream.get()));
  const std::vector<Sample> samples = MakeSamples(problem, operands, kSamples);
  const Operands addresses{a.data(), b.data(), nullptr, d.data()};
  for (const KernelFamily* family : families) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelRef kernel{family, static_cast<int>(config)};
      if (!only.empty() && kernel.get().name != only) continue;
      if (!family->WhyNot(problem, device, kernel.config).empty()) continue;
      GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(d.data(), 0xff, d.bytes(), stream.get()));
      PreparedLaunch launch;
      GEMM_RETURN_IF_CUDA_ERROR(launch.Create(kernel, {&problem, 1}, {&addresses, 1}, device));
      GEMM_RETURN_IF_CUDA_ERROR(launch.Launch(stream.get()));
      GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.get()));
      Verdict verdict;
      GEMM_RETURN_IF_CUDA_ERROR(CheckSamples(problem.dtype, samples, d.data(), &verdict));
      report->Add(kernel.get().name, large.name, "large", verdict);
    }
  }
  return cudaSuccess;
}

}  // namespace

CheckReport CheckLarge(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                       DType dtype, std::string_view only) {
  CheckReport report;
  for (const KernelFamily* family : families) {
    if (const cudaError_t error = family->Prepare(device); error != cudaSuccess) {
      report.Add(family->name(), "Prepare", "large", {false, 0, CudaErrorText(error)});
      return report;
    }
  }
  for (const LargeCase& large : LargeCases(dtype)) {
    const cudaError_t error = CheckOne(large, families, device, only, &report);
    if (error == cudaSuccess) continue;
    report.Add("(device)", large.name, "large", {false, 0, CudaErrorText(error)});
    report.device_lost = IsPoisoning(error);
    if (report.device_lost) break;
  }
  return report;
}

}  // namespace gemm
