#include "server/engine/cuda_failure.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda_status.h"
#include "server/reason.h"

namespace gemm {

absl::Status CudaFailure(std::string_view what, cudaError_t error) {
  cudaGetLastError();
  if (error == cudaErrorMemoryAllocation) {
    return ErrorWithReason(Reason::kMemoryFull,
                           absl::StrCat("the device has not enough free memory for this product (",
                                        std::string(what), ")"));
  }
  return ErrorWithReason(Reason::kDeviceFailed,
                         absl::StrCat(std::string(what), ": ", CudaErrorText(error)));
}

}  // namespace gemm
