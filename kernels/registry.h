// The ordered list of families: preferred first, the reference last.

#ifndef GEMMD_KERNELS_REGISTRY_H_
#define GEMMD_KERNELS_REGISTRY_H_

#include <span>

#include "kernels/kernel.h"

namespace gemm {

std::span<const KernelFamily* const> Families();

}  // namespace gemm

#endif  // GEMMD_KERNELS_REGISTRY_H_
