// The families that this build holds, one function a file. registry.cc puts them in order.

#ifndef GEMMD_KERNELS_FAMILIES_FAMILIES_H_
#define GEMMD_KERNELS_FAMILIES_FAMILIES_H_

#include "kernels/kernel.h"

namespace gemm {

const KernelFamily& PipelinedFamily();
const KernelFamily& UnpackedFamily();
const KernelFamily& SlicedFamily();
const KernelFamily& StreamKFamily();
const KernelFamily& SkinnyFamily();
const KernelFamily& DeepFamily();
const KernelFamily& BoxedFamily();
const KernelFamily& DenseFamily();
const KernelFamily& SmallFamily();
const KernelFamily& OuterFamily();
const KernelFamily& TensorFamily();
const KernelFamily& RegisterFamily();
const KernelFamily& Blocked1dFamily();
const KernelFamily& CachedFamily();
const KernelFamily& TiledFamily();
const KernelFamily& NaiveFamily();
const KernelFamily& ReferenceFamily();

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FAMILIES_H_
