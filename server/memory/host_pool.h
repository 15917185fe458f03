// Reuses host buffers under a budget, because page-locking memory costs about half a millisecond a
// MiB: far more than the copy it makes possible.

#ifndef GEMMD_SERVER_MEMORY_HOST_POOL_H_
#define GEMMD_SERVER_MEMORY_HOST_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/memory/host_memory.h"

namespace gemm {

class HostPool;

// Owns one buffer of a pool and returns it when destroyed, from any thread. Keeps the pool alive.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }  // as asked for
  bool empty() const { return size_bytes_ == 0; }

 private:
  friend class HostPool;
  HostBuffer(std::shared_ptr<HostPool> pool, std::byte* data, size_t size_bytes,
             size_t capacity_bytes);

  std::shared_ptr<HostPool> pool_;
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t capacity_bytes_ = 0;
};

// Thread-safe. Memory that callers hold and memory kept for reuse together stay within the budget.
class HostPool : public std::enable_shared_from_this<HostPool> {
 public:
  // `memory` must outlive the pool and every buffer of it.
  static std::shared_ptr<HostPool> Create(HostMemory& memory, uint64_t budget_bytes);
  ~HostPool();

  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // A buffer of at least `size_bytes`, contents undefined, aligned to a page. size 0 gives an empty
  // buffer. RESOURCE_EXHAUSTED when it can never fit the budget, UNAVAILABLE when it does not now.
  // `beside`: a buffer of this pool that the caller keeps meanwhile, so that both have to fit.
  absl::StatusOr<HostBuffer> Allocate(size_t size_bytes, const HostBuffer& beside = HostBuffer());

  uint64_t budget_bytes() const { return budget_bytes_; }
  uint64_t used_bytes() const;      // held by callers, rounded up to size classes
  uint64_t reserved_bytes() const;  // used and kept for reuse

  // What a request is rounded up to: four steps to each power of two, so at most 25 % is lost.
  static size_t SizeClass(size_t size_bytes);

 private:
  friend class HostBuffer;
  HostPool(HostMemory& memory, uint64_t budget_bytes);
  void Return(std::byte* data, size_t capacity_bytes);
  // Takes kept buffers, largest first, off the books until the budget holds; the caller frees them
  // (data, capacity). Requires mutex_ and used_bytes_ <= budget_bytes_.
  std::vector<std::pair<std::byte*, size_t>> MakeRoom();

  HostMemory& memory_;
  const uint64_t budget_bytes_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::map<size_t, std::vector<std::byte*>> kept_;
  uint64_t used_bytes_ = 0;
  uint64_t kept_bytes_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_HOST_POOL_H_
