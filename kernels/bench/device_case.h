// A check's operands on the device.

#ifndef GEMMD_KERNELS_BENCH_DEVICE_CASE_H_
#define GEMMD_KERNELS_BENCH_DEVICE_CASE_H_

#include <cuda_runtime_api.h>

#include "kernels/bench/case_data.h"
#include "kernels/bench/prepared_launch.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"

namespace gemm {

template <typename T>
class DeviceCase {
 public:
  cudaError_t Create(const CheckCase& check_case, const CaseData<T>& data) {
    GEMM_RETURN_IF_CUDA_ERROR(stream_.Create());
    GEMM_RETURN_IF_CUDA_ERROR(Upload(data.a, &a_));
    GEMM_RETURN_IF_CUDA_ERROR(Upload(data.b, &b_));
    GEMM_RETURN_IF_CUDA_ERROR(Upload(data.c, &c_));
    GEMM_RETURN_IF_CUDA_ERROR(Upload(data.d, &d_));
    const auto at = [](const DeviceBuffer& buffer, const HostOperand<T>& operand) {
      return static_cast<T*>(buffer.data()) + operand.offset;
    };
    operands_.a = at(a_, data.a);
    operands_.b = at(b_, data.b);
    operands_.d = at(d_, data.d);
    operands_.c = check_case.c_is_d ? operands_.d : at(c_, data.c);
    return cudaSuccess;
  }

  // Computes into a fresh D and brings its buffer back.
  cudaError_t Run(const KernelRef& kernel, const Problem& problem, const DeviceInfo& device,
                  const HostOperand<T>& fresh, HostOperand<T>* result) {
    GEMM_RETURN_IF_CUDA_ERROR(Refresh(fresh));
    PreparedLaunch launch;
    GEMM_RETURN_IF_CUDA_ERROR(launch.Create(kernel, {&problem, 1}, {&operands_, 1}, device));
    GEMM_RETURN_IF_CUDA_ERROR(launch.Launch(stream_.get()));
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_.get()));
    return Download(fresh, result);
  }

  const Operands& operands() const { return operands_; }
  cudaStream_t stream() const { return stream_.get(); }

  // The two halves of Run, for who launches for himself.
  cudaError_t Refresh(const HostOperand<T>& fresh) { return Upload(fresh, &d_); }
  cudaError_t Download(const HostOperand<T>& fresh, HostOperand<T>* result) const {
    result->offset = fresh.offset;
    result->buffer.resize(fresh.buffer.size());
    return cudaMemcpy(result->buffer.data(), d_.data(), d_.bytes(), cudaMemcpyDeviceToHost);
  }

 private:
  static cudaError_t Upload(const HostOperand<T>& operand, DeviceBuffer* buffer) {
    const size_t bytes = operand.buffer.size() * sizeof(T);
    if (buffer->bytes() != bytes) GEMM_RETURN_IF_CUDA_ERROR(buffer->Create(bytes));
    // The copy of pageable memory may still be under way on the default stream when the call
    // returns, and our stream does not wait for that one.
    GEMM_RETURN_IF_CUDA_ERROR(
        cudaMemcpy(buffer->data(), operand.buffer.data(), bytes, cudaMemcpyHostToDevice));
    return cudaDeviceSynchronize();
  }

  Stream stream_;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer c_;
  DeviceBuffer d_;
  Operands operands_;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_DEVICE_CASE_H_
