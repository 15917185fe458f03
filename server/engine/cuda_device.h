// A GPU as a device of the engine.

#ifndef GEMMD_SERVER_ENGINE_CUDA_DEVICE_H_
#define GEMMD_SERVER_ENGINE_CUDA_DEVICE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/device.h"

namespace gemm {

// Every GPU that CUDA_VISIBLE_DEVICES leaves, ready to run: context made, kernels loaded.
// `force_kernel`, when not empty, is the full name of the only kernel to use; INVALID_ARGUMENT when
// no kernel has it. FAILED_PRECONDITION, saying what was found and what is needed, when there is no
// usable GPU or the driver is too old.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(std::string_view force_kernel);

// Label values of launch metrics.
std::vector<std::string> CudaKernelFamilies();

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CUDA_DEVICE_H_
