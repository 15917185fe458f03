#include "server/memory/pinned_memory.h"

#include <cuda_runtime_api.h>

namespace gemm {

void* PinnedMemory::Allocate(size_t size_bytes) {
  void* data = nullptr;
  if (cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();  // not sticky: the next call must not report it
    return nullptr;
  }
  return data;
}

void PinnedMemory::Free(void* data, size_t /*size_bytes*/) {
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

}  // namespace gemm
