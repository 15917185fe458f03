// How fast each legal kernel is on one product: device time by graph replay, over operands that
// rotate through more than twice the L2 cache.

#ifndef GEMMD_KERNELS_BENCH_TIMING_H_
#define GEMMD_KERNELS_BENCH_TIMING_H_

#include <cuda_runtime_api.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace gemm {

struct KernelTiming {
  std::string kernel;
  std::string fault;   // not empty: it failed its check, and the figures are not there
  double seconds = 0;  // median of one product
  double spread = 0;   // (slowest - fastest replay) / median
  double modelled_seconds = 0;
  bool selected = false;  // what Select would take
};

// Each kernel is first checked on the very operands that it is timed on: samples within the bound,
// and every bit of D equal to that of its class's first kernel. `only` as for CheckFamilies.
[[nodiscard]] cudaError_t TimeKernels(std::span<const KernelFamily* const> families,
                                      const DeviceInfo& device, const Problem& problem,
                                      std::string_view only, std::vector<KernelTiming>* timings);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_TIMING_H_
