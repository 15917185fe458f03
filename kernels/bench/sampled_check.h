// Checking a product that is too large for a host reference: some of its elements, computed from
// the indices of the operands' elements alone.

#ifndef GEMMD_KERNELS_BENCH_SAMPLED_CHECK_H_
#define GEMMD_KERNELS_BENCH_SAMPLED_CHECK_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/bench/shapes.h"
#include "kernels/bench/verdict.h"

namespace gemm {

// Operands filled by DeviceFill over their whole extents, with these seeds.
struct SampledOperands {
  Fill fill = Fill::kIntegers;
  uint64_t seed_a = 0;
  uint64_t seed_b = 0;
  uint64_t seed_c = 0;
};

struct Sample {
  int64_t index = 0;      // of the element, from the start of D
  long double value = 0;  // what it should be
  long double bound = 0;  // how far off it may be; 0 for integers
};

// The corners of the first and last matrix and `count` elements at random.
std::vector<Sample> MakeSamples(const Problem& problem, const SampledOperands& operands, int count);

// Reads the samples' elements from D on the device.
[[nodiscard]] cudaError_t CheckSamples(DType dtype, const std::vector<Sample>& samples,
                                       const void* d, Verdict* verdict);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_SAMPLED_CHECK_H_
