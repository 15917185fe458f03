// Division by a number that the host knows.

#ifndef GEMMD_KERNELS_FAMILIES_DIVISOR_CUH_
#define GEMMD_KERNELS_FAMILIES_DIVISOR_CUH_

#include <cuda_runtime.h>

#include "kernels/families/divisor.h"

namespace gemm {

__host__ __device__ __forceinline__ int Quotient(int dividend, Divisor by) {
  return static_cast<int>(uint64_t{static_cast<uint32_t>(dividend)} * by.multiplier >> by.shift);
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DIVISOR_CUH_
