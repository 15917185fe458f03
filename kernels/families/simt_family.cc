#include "kernels/families/simt_family.h"

#include <algorithm>

#include "kernels/cuda_status.h"
#include "kernels/families/launch_records.h"

namespace gemm {
namespace {

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridYZ = 65535;

// What Encode leaves for Launch, one a kernel.
struct LaunchRecord {
  SimtGrid grid;
  union {
    StridedGemm<float> f32;
    StridedGemm<double> f64;
  };
};

int64_t CeilDiv(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

}  // namespace

std::string SimtFamily::WhyNot(const Problem& problem, const DeviceInfo& /*device*/,
                               int config) const {
  const SimtConfig& simt = simt_config(config);
  if (problem.dtype != simt.dtype) {
    return "computes " + std::string(NameOf(simt.dtype)) + ", not " +
           std::string(NameOf(problem.dtype));
  }
  if (CeilDiv(problem.n, simt.tile_n) > kMaxGridX) {
    return "n needs more than 2^31 - 1 blocks of " + std::to_string(simt.tile_n) + " columns";
  }
  return {};
}

double SimtFamily::ModelSeconds(const Problem& problem, const DeviceInfo& device,
                                int config) const {
  const SimtConfig& simt = simt_config(config);
  return simt.start_seconds + ModelColdSeconds(OperandBytes(problem)) +
         ModelTileSeconds(problem, device,
                          {.tile_m = simt.tile_m,
                           .tile_n = simt.tile_n,
                           .math_fraction = simt.math_fraction,
                           .lone_fraction = simt.lone_fraction,
                           .begin = simt.begin,
                           .result_fraction = simt.result_fraction});
}

cudaError_t SimtFamily::Prepare(const DeviceInfo& /*device*/) const {
  for (const void* function : functions_) {
    cudaFuncAttributes attributes;
    GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, function));
  }
  return cudaSuccess;
}

Plan SimtFamily::MakePlan(std::span<const Problem> problems, const DeviceInfo& /*device*/,
                          int config) const {
  return PlanOfEach<LaunchRecord>(problems, config, 0);
}

void SimtFamily::Encode(const Plan& plan, std::span<const Problem> problems,
                        std::span<const Operands> operands, void* args) const {
  const SimtConfig& simt = simt_config(plan.config);
  EncodeEach(problems, operands, args, [&](const Problem& problem, const Operands& of_problem) {
    LaunchRecord record;
    record.grid = Grid(problem, simt);
    if (simt.dtype == DType::kF32) {
      record.f32 = MakeStridedGemm<float>(problem, of_problem);
    } else {
      record.f64 = MakeStridedGemm<double>(problem, of_problem);
    }
    return record;
  });
}

cudaError_t SimtFamily::Launch(const Plan& plan, const void* args, const void* /*device_args*/,
                               void* /*workspace*/, cudaStream_t stream) const {
  const dim3 block(static_cast<unsigned>(simt_config(plan.config).threads));
  return LaunchEach<LaunchRecord>(plan, args, [&](LaunchRecord& record) {
    void* parameters[] = {&record.f32};  // f64 is at the same address
    const dim3 grid(record.grid.x, record.grid.y, record.grid.z);
    return cudaLaunchKernel(functions_[plan.config], grid, block, parameters, 0, stream);
  });
}

SimtGrid SimtFamily::Grid(const Problem& problem, const SimtConfig& config) const {
  return {static_cast<unsigned>(CeilDiv(problem.n, config.tile_n)),
          static_cast<unsigned>(std::min(CeilDiv(problem.m, config.tile_m), kMaxGridYZ)),
          static_cast<unsigned>(std::min(problem.batch_count, kMaxGridYZ))};
}

}  // namespace gemm
