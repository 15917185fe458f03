// Page-locked host memory, which a GPU's copy engines reach at full speed.

#ifndef GEMMD_SERVER_MEMORY_PINNED_MEMORY_H_
#define GEMMD_SERVER_MEMORY_PINNED_MEMORY_H_

#include "server/memory/host_memory.h"

namespace gemm {

// Usable by every GPU of the process.
class PinnedMemory final : public HostMemory {
 public:
  void* Allocate(size_t size_bytes) override;
  void Free(void* data, size_t size_bytes) override;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_PINNED_MEMORY_H_
