// One kernel made ready for the same product on each of several operand sets.

#ifndef GEMMD_KERNELS_BENCH_PREPARED_ROTATION_H_
#define GEMMD_KERNELS_BENCH_PREPARED_ROTATION_H_

#include <cuda_runtime_api.h>

#include <span>

#include "kernels/cuda_raii.h"
#include "kernels/select.h"

namespace gemm {

class PreparedRotation {
 public:
  // The family has been prepared on the current device. Waits for the arguments to be there.
  [[nodiscard]] cudaError_t Create(const KernelRef& kernel, const Problem& problem,
                                   std::span<const Operands> sets, const DeviceInfo& device);

  // Launches of one PreparedRotation share a workspace: they belong on one stream.
  [[nodiscard]] cudaError_t Launch(size_t set, cudaStream_t stream) const;

 private:
  KernelRef kernel_;
  Plan plan_;
  size_t args_stride_ = 0;
  PinnedBuffer args_;
  DeviceBuffer device_args_;
  DeviceBuffer workspace_;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_PREPARED_ROTATION_H_
