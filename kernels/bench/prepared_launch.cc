#include "kernels/bench/prepared_launch.h"

#include "kernels/cuda_status.h"

namespace gemm {

cudaError_t PreparedLaunch::Create(const KernelRef& kernel, std::span<const Problem> problems,
                                   std::span<const Operands> operands, const DeviceInfo& device) {
  kernel_ = kernel;
  plan_ = kernel.family->MakePlan(problems, device, kernel.config);
  GEMM_RETURN_IF_CUDA_ERROR(args_.Create(plan_.args_bytes));
  GEMM_RETURN_IF_CUDA_ERROR(device_args_.Create(plan_.device_args_bytes));
  GEMM_RETURN_IF_CUDA_ERROR(workspace_.Create(plan_.workspace_bytes));
  kernel.family->Encode(plan_, problems, operands, args_.data());
  if (plan_.device_args_bytes == 0) return cudaSuccess;
  return cudaMemcpy(device_args_.data(), args_.data(), plan_.device_args_bytes,
                    cudaMemcpyHostToDevice);
}

cudaError_t PreparedLaunch::Launch(cudaStream_t stream) const {
  return kernel_.family->Launch(plan_, args_.data(), device_args_.data(), workspace_.data(),
                                stream);
}

}  // namespace gemm
