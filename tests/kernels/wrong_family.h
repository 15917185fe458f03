// Kernels that are wrong on purpose, each in one way, to show that the checks on the device catch
// them. Nothing but the tests links this.

#ifndef GEMMD_TESTS_KERNELS_WRONG_FAMILY_H_
#define GEMMD_TESTS_KERNELS_WRONG_FAMILY_H_

#include <cuda_runtime_api.h>

#include "kernels/kernel.h"

namespace gemm {

const KernelFamily& WrongFamily();

// Those that are wrong in some launches begin to count anew, on the current device.
[[nodiscard]] cudaError_t ForgetWrongLaunches();

}  // namespace gemm

#endif  // GEMMD_TESTS_KERNELS_WRONG_FAMILY_H_
