// CUDA errors as statuses of products.

#ifndef GEMMD_SERVER_ENGINE_CUDA_FAILURE_H_
#define GEMMD_SERVER_ENGINE_CUDA_FAILURE_H_

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

// For functions that return absl::Status.
#define GEMM_RETURN_IF_CUDA_FAILS(what, expression)                                         \
  do {                                                                                      \
    if (const cudaError_t gemm_cuda_error = (expression); gemm_cuda_error != cudaSuccess) { \
      return ::gemm::CudaFailure(what, gemm_cuda_error);                                    \
    }                                                                                       \
  } while (false)

namespace gemm {

// What failed while doing `what`. Clears CUDA's last error, so that the next call does not report
// it again.
absl::Status CudaFailure(std::string_view what, cudaError_t error);

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CUDA_FAILURE_H_
