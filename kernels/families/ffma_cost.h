// How long a product should take in the families that are built on ffma_multiply.cuh.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_COST_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_COST_H_

#include "kernels/device_info.h"
#include "kernels/families/ffma_family.h"
#include "kernels/gemm.h"

namespace gemm {

// As in cost_model.h, with chunks as tiles of their own, and what packing and the second pass cost.
double FfmaSeconds(const Problem& problem, const DeviceInfo& device, const FfmaConfig& config,
                   FfmaPacking packing);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_COST_H_
