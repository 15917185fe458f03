// A GPU as a device of the engine.

#ifndef GEMMD_SERVER_ENGINE_CUDA_DEVICE_H_
#define GEMMD_SERVER_ENGINE_CUDA_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/device.h"

namespace gemm {

struct CudaOptions {
  std::string force_kernel;       // when not empty, the full name of the only kernel to use
  double memory_fraction = 0.25;  // of each device's memory, for the batches that it runs
};

// Every GPU that CUDA_VISIBLE_DEVICES leaves, ready to run: context made, kernels loaded.
// INVALID_ARGUMENT when no kernel has the name, or the memory is too little to work with.
// FAILED_PRECONDITION, saying what was found and what is needed, when there is no usable GPU, the
// driver is too old, or a GPU has not so much memory free.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(const CudaOptions& options);

// Label values of launch metrics.
std::vector<std::string> CudaKernelFamilies();

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CUDA_DEVICE_H_
