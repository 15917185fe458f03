// CUDA errors: their text, and which of them are the end of a device.

#ifndef GEMMD_KERNELS_CUDA_STATUS_H_
#define GEMMD_KERNELS_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <string>

// Returns from a function that returns cudaError_t when `expression` is an error.
#define GEMM_RETURN_IF_CUDA_ERROR(expression)                   \
  do {                                                          \
    const cudaError_t gemm_cuda_error = (expression);           \
    if (gemm_cuda_error != cudaSuccess) return gemm_cuda_error; \
  } while (false)

namespace gemm {

// "cudaErrorMemoryAllocation: out of memory".
std::string CudaErrorText(cudaError_t error);

// True for errors after which every call of this process on the device fails: the context cannot
// be repaired, and only a new process helps. Running out of memory is not one of them.
bool IsPoisoning(cudaError_t error);

}  // namespace gemm

#endif  // GEMMD_KERNELS_CUDA_STATUS_H_
