#include "kernels/bench/prepared_rotation.h"

#include "kernels/cuda_status.h"

namespace gemm {

cudaError_t PreparedRotation::Create(const KernelRef& kernel, const Problem& problem,
                                     std::span<const Operands> sets, const DeviceInfo& device) {
  kernel_ = kernel;
  plan_ = kernel.family->MakePlan({&problem, 1}, device, kernel.config);
  args_stride_ = (plan_.args_bytes + 255) / 256 * 256;
  GEMM_RETURN_IF_CUDA_ERROR(args_.Create(args_stride_ * sets.size()));
  GEMM_RETURN_IF_CUDA_ERROR(workspace_.Create(plan_.workspace_bytes));
  for (size_t s = 0; s < sets.size(); ++s) {
    kernel.family->Encode(plan_, {&problem, 1}, {&sets[s], 1},
                          static_cast<char*>(args_.data()) + s * args_stride_);
  }
  if (plan_.device_args_bytes == 0) return cudaSuccess;
  GEMM_RETURN_IF_CUDA_ERROR(device_args_.Create(args_.bytes()));
  return cudaMemcpy(device_args_.data(), args_.data(), args_.bytes(), cudaMemcpyHostToDevice);
}

cudaError_t PreparedRotation::Launch(size_t set, cudaStream_t stream) const {
  const size_t offset = set * args_stride_;
  const void* device_args =
      device_args_.data() == nullptr ? nullptr : static_cast<char*>(device_args_.data()) + offset;
  return kernel_.family->Launch(plan_, static_cast<char*>(args_.data()) + offset, device_args,
                                workspace_.data(), stream);
}

}  // namespace gemm
