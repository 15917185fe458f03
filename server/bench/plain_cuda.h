// The least that a program without an engine would do with a product on the first GPU.

#ifndef GEMMD_SERVER_BENCH_PLAIN_CUDA_H_
#define GEMMD_SERVER_BENCH_PLAIN_CUDA_H_

#include <string>

#include "kernels/gemm.h"

namespace gemm::bench {

struct PlainCuda {
  double loop_s = 0;    // a product: copy in, launch, copy out, wait, one after another
  double upload_s = 0;  // its operands alone, back to back
  double kernel_s = 0;  // its kernel alone, back to back
};

// Of the kernel that an engine would choose, or `force_kernel`. Medians of `rounds` rounds. Ends
// the process when anything goes wrong.
PlainCuda MeasurePlainCuda(const Problem& problem, const std::string& force_kernel, int rounds);

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_PLAIN_CUDA_H_
