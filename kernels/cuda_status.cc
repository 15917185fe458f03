#include "kernels/cuda_status.h"

namespace gemm {

std::string CudaErrorText(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

bool IsPoisoning(cudaError_t error) {
  switch (error) {
    // Faults of a kernel: the context is corrupt from here on.
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorTensorMemoryLeak:
    // Faults of the hardware or of its link, and devices that went away.
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorExternalDevice:
    case cudaErrorSystemNotReady:
    case cudaErrorContextIsDestroyed:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsRpcFailure:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace gemm
