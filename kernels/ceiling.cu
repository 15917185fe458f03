#include <algorithm>

#include "kernels/ceiling.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksAMultiprocessor = 4;
constexpr int kSums = 16;  // of a thread, independent, so that no multiply-add waits for another
constexpr int kSteps = 4096;
constexpr int kRuns = 3;  // the first wakes the clocks

template <typename T>
__global__ void __launch_bounds__(kThreads) MultiplyAdd(T* out, T factor, T addend) {
  T sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = static_cast<T>(threadIdx.x + i);
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = fma(sums[i], factor, addend);
  }
  T sum = 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum += sums[i];
  if (out != nullptr) *out = sum;  // never: keeps the sums from being left out
}

template <typename T>
cudaError_t Measure(double* flops_per_second) {
  int device = 0;
  int multiprocessors = 0;
  GEMM_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  GEMM_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  Stream stream;
  Event start;
  Event end;
  GEMM_RETURN_IF_CUDA_ERROR(stream.Create());
  GEMM_RETURN_IF_CUDA_ERROR(start.Create());
  GEMM_RETURN_IF_CUDA_ERROR(end.Create());
  const int blocks = multiprocessors * kBlocksAMultiprocessor;
  float least_milliseconds = 0;
  for (int run = 0; run < kRuns; ++run) {
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventRecord(start.get(), stream.get()));
    MultiplyAdd<T>
        <<<blocks, kThreads, 0, stream.get()>>>(nullptr, static_cast<T>(0.5), static_cast<T>(1));
    GEMM_RETURN_IF_CUDA_ERROR(cudaGetLastError());
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventRecord(end.get(), stream.get()));
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end.get()));
    float milliseconds = 0;
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
    least_milliseconds = run == 0 ? milliseconds : std::min(least_milliseconds, milliseconds);
  }
  const double operations = 2.0 * kSums * kSteps * kThreads * blocks;
  *flops_per_second = operations / (1e-3 * std::max(least_milliseconds, 1e-3F));
  return cudaSuccess;
}

}  // namespace

cudaError_t MeasureCeiling(DType dtype, double* flops_per_second) {
  return dtype == DType::kF32 ? Measure<float>(flops_per_second)
                              : Measure<double>(flops_per_second);
}

}  // namespace gemm
