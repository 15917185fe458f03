// Reading a DeviceInfo off a real GPU.

#ifndef GEMMD_KERNELS_CUDA_DEVICE_INFO_H_
#define GEMMD_KERNELS_CUDA_DEVICE_INFO_H_

#include <cuda_runtime_api.h>

#include "kernels/device_info.h"

namespace gemm {

// Facts about device `ordinal`, as CUDA numbers those that CUDA_VISIBLE_DEVICES leaves. Creates no
// context.
[[nodiscard]] cudaError_t ReadDeviceInfo(int ordinal, DeviceInfo* info);

}  // namespace gemm

#endif  // GEMMD_KERNELS_CUDA_DEVICE_INFO_H_
