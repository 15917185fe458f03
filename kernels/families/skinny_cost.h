// How long the skinny family takes: for the cost model.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_COST_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_COST_H_

#include "kernels/device_info.h"
#include "kernels/families/skinny_cut.h"
#include "kernels/gemm.h"

namespace gemm {

// Of a problem that is cut so.
double SkinnySeconds(const Problem& problem, const DeviceInfo& device, const SkinnyCut& cut);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_COST_H_
