// How fast a GPU computes when no byte moves: what a product's rate is to be compared with.

#ifndef GEMMD_KERNELS_CEILING_H_
#define GEMMD_KERNELS_CEILING_H_

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

namespace gemm {

// Measures the rate of fused multiply-adds on registers alone, two operations each, on the current
// device: a few milliseconds. Meant for a device that does nothing else.
[[nodiscard]] cudaError_t MeasureCeiling(DType dtype, double* flops_per_second);

}  // namespace gemm

#endif  // GEMMD_KERNELS_CEILING_H_
