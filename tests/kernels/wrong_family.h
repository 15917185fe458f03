// Kernels that are wrong on purpose, each in one way, to show that the checks on the device catch
// them. Nothing but the tests links this.

#ifndef GEMMD_TESTS_KERNELS_WRONG_FAMILY_H_
#define GEMMD_TESTS_KERNELS_WRONG_FAMILY_H_

#include "kernels/kernel.h"

namespace gemm {

const KernelFamily& WrongFamily();

}  // namespace gemm

#endif  // GEMMD_TESTS_KERNELS_WRONG_FAMILY_H_
