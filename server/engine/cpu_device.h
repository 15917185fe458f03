// The CPU as a device, through CBLAS: for machines without a GPU, demos and tests.

#ifndef GEMMD_SERVER_ENGINE_CPU_DEVICE_H_
#define GEMMD_SERVER_ENGINE_CPU_DEVICE_H_

#include <memory>

#include "server/engine/device.h"

namespace gemm {

std::unique_ptr<Device> OpenCpuDevice();

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CPU_DEVICE_H_
