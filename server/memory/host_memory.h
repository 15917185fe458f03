// Where host memory for transfers comes from: page-locked memory for a GPU, ordinary memory for the
// CPU device.

#ifndef GEMMD_SERVER_MEMORY_HOST_MEMORY_H_
#define GEMMD_SERVER_MEMORY_HOST_MEMORY_H_

#include <cstddef>

namespace gemm {

// Thread-safe.
class HostMemory {
 public:
  virtual ~HostMemory() = default;

  // Page-aligned, contents undefined; null when the system has no more. size > 0.
  virtual void* Allocate(size_t size_bytes) = 0;
  virtual void Free(void* data, size_t size_bytes) = 0;
};

// Ordinary pageable memory.
class PageableMemory final : public HostMemory {
 public:
  void* Allocate(size_t size_bytes) override;
  void Free(void* data, size_t size_bytes) override;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_HOST_MEMORY_H_
