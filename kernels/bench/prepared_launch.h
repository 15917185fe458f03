// One launch of one kernel with the memory that its plan asks for: how checks and timings run a
// family through nothing but its public interface.

#ifndef GEMMD_KERNELS_BENCH_PREPARED_LAUNCH_H_
#define GEMMD_KERNELS_BENCH_PREPARED_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <span>

#include "kernels/cuda_raii.h"
#include "kernels/select.h"

namespace gemm {

class PreparedLaunch {
 public:
  // The family has been prepared on the current device. Waits for the arguments to be there.
  [[nodiscard]] cudaError_t Create(const KernelRef& kernel, std::span<const Problem> problems,
                                   std::span<const Operands> operands, const DeviceInfo& device);

  // May be called again and again, and while a stream is being captured.
  [[nodiscard]] cudaError_t Launch(cudaStream_t stream) const;

 private:
  KernelRef kernel_;
  Plan plan_;
  PinnedBuffer args_;
  DeviceBuffer device_args_;
  DeviceBuffer workspace_;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_PREPARED_LAUNCH_H_
