// What a program without an engine gets out of GPUs: the least that it would do with a product, and
// the most that it could copy.

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

// What the first `devices` GPUs can bring in at once, in bytes a second of all of them, while
// `out_share` times as many bytes go out: by copy engines, page-locked memory, pieces of 512 KiB.
// The best of `rounds` rounds, since it is a bound.
double MeasureBus(int devices, double out_share, int rounds);

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_PLAIN_CUDA_H_
