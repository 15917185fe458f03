// Filling device memory with random_value.h's values, each a function of its element's index.

#ifndef GEMMD_KERNELS_BENCH_DEVICE_FILL_H_
#define GEMMD_KERNELS_BENCH_DEVICE_FILL_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/bench/random_value.h"
#include "kernels/bench/shapes.h"
#include "kernels/gemm.h"

namespace gemm {

inline constexpr int kDeviceFillRange = 4;  // integers in [-4, 4]

// What DeviceFill puts at `index`. The fill is kIntegers or kReals.
GEMM_HOST_DEVICE inline double FilledValue(DType dtype, Fill fill, uint64_t seed, int64_t index) {
  const auto at = static_cast<uint64_t>(index);
  const double value =
      fill == Fill::kReals ? RandomReal(seed, at) : RandomInteger(seed, at, kDeviceFillRange);
  return dtype == DType::kF32 ? static_cast<float>(value) : value;
}

[[nodiscard]] cudaError_t DeviceFill(DType dtype, void* data, int64_t elements, Fill fill,
                                     uint64_t seed, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_DEVICE_FILL_H_
