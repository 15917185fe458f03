#include "kernels/cuda_raii.h"

#include <cstdio>

#include "kernels/cuda_status.h"

namespace gemm {
namespace {

// A destructor has nobody to tell. Errors of a context that is gone already, because the process
// is exiting or a kernel poisoned it, were or will be reported by the call that met them first.
void Tolerate(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // Not to be taken for the error of the next launch.
  if (error == cudaErrorCudartUnloading || IsPoisoning(error)) return;
  // A poisoned context calls its handles invalid; freeing nothing gives its true error.
  if (IsPoisoning(cudaFree(nullptr))) return;
  std::fprintf(stderr, "%s: %s\n", call, CudaErrorText(error).c_str());
}

}  // namespace

cudaError_t Stream::Create(int priority) {
  Reset();
  return cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority);
}

void Stream::Reset() {
  if (stream_ == nullptr) return;
  Tolerate(cudaStreamDestroy(std::exchange(stream_, nullptr)), "cudaStreamDestroy");
}

cudaError_t Event::Create(unsigned flags) {
  Reset();
  return cudaEventCreateWithFlags(&event_, flags);
}

void Event::Reset() {
  if (event_ == nullptr) return;
  Tolerate(cudaEventDestroy(std::exchange(event_, nullptr)), "cudaEventDestroy");
}

cudaError_t DeviceBuffer::Create(size_t bytes) {
  Reset();
  if (bytes == 0) return cudaSuccess;
  const cudaError_t error = cudaMalloc(&data_, bytes);
  if (error == cudaSuccess) {
    bytes_ = bytes;
  } else {
    data_ = nullptr;
    cudaGetLastError();  // Out of memory is the caller's to handle, not the next launch's.
  }
  return error;
}

void DeviceBuffer::Reset() {
  if (data_ == nullptr) return;
  bytes_ = 0;
  Tolerate(cudaFree(std::exchange(data_, nullptr)), "cudaFree");
}

cudaError_t PinnedBuffer::Create(size_t bytes, unsigned flags) {
  Reset();
  if (bytes == 0) return cudaSuccess;
  const cudaError_t error = cudaHostAlloc(&data_, bytes, flags);
  if (error == cudaSuccess) {
    bytes_ = bytes;
  } else {
    data_ = nullptr;
    cudaGetLastError();
  }
  return error;
}

void PinnedBuffer::Reset() {
  if (data_ == nullptr) return;
  bytes_ = 0;
  Tolerate(cudaFreeHost(std::exchange(data_, nullptr)), "cudaFreeHost");
}

}  // namespace gemm
