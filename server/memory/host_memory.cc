#include "server/memory/host_memory.h"

#include <cstdlib>

namespace gemm {
namespace {
constexpr size_t kPageBytes = 4096;
}  // namespace

void* PageableMemory::Allocate(size_t size_bytes) {
  return std::aligned_alloc(kPageBytes, (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
}

void PageableMemory::Free(void* data, size_t /*size_bytes*/) { std::free(data); }

}  // namespace gemm
