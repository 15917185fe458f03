#include "server/memory/host_pool.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr size_t kSmallestClassBytes = 4096;
constexpr size_t kStepsPerDoubling = 4;
// Requests beyond this are refused before any rounding could overflow.
constexpr size_t kLargestRequestBytes = size_t{1} << 60;

}  // namespace

HostBuffer::HostBuffer(std::shared_ptr<HostPool> pool, std::byte* data, size_t size_bytes,
                       size_t capacity_bytes)
    : pool_(std::move(pool)),
      data_(data),
      size_bytes_(size_bytes),
      capacity_bytes_(capacity_bytes) {}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      capacity_bytes_(std::exchange(other.capacity_bytes_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(capacity_bytes_, other.capacity_bytes_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) pool_->Return(data_, capacity_bytes_);
}

std::shared_ptr<HostPool> HostPool::Create(HostMemory& memory, uint64_t budget_bytes) {
  return std::shared_ptr<HostPool>(new HostPool(memory, budget_bytes));
}

HostPool::HostPool(HostMemory& memory, uint64_t budget_bytes)
    : memory_(memory), budget_bytes_(budget_bytes) {}

HostPool::~HostPool() {
  for (auto& [capacity_bytes, buffers] : kept_) {
    for (std::byte* data : buffers) memory_.Free(data, capacity_bytes);
  }
}

size_t HostPool::SizeClass(size_t size_bytes) {
  if (size_bytes <= kSmallestClassBytes) return kSmallestClassBytes;
  const size_t step = std::bit_floor(size_bytes - 1) / kStepsPerDoubling;  // a power of two
  return (size_bytes + step - 1) & ~(step - 1);
}

absl::StatusOr<HostBuffer> HostPool::Allocate(size_t size_bytes, const HostBuffer& beside) {
  if (size_bytes == 0) return HostBuffer();
  const size_t capacity_bytes =
      size_bytes > kLargestRequestBytes ? size_bytes : SizeClass(size_bytes);
  if (capacity_bytes > budget_bytes_ - beside.capacity_bytes_) {
    return ErrorWithReason(Reason::kMemoryTooSmall,
                           absl::StrCat("the product needs ", beside.size_bytes_ + size_bytes,
                                        " bytes of host memory at once; the server's budget is ",
                                        budget_bytes_, " bytes (--host-memory)"));
  }

  std::vector<std::pair<std::byte*, size_t>> evicted;
  {
    std::lock_guard lock(mutex_);
    if (used_bytes_ + capacity_bytes > budget_bytes_) {
      return ErrorWithReason(Reason::kMemoryFull,
                             absl::StrCat("the server's host memory is in use: ", used_bytes_,
                                          " of ", budget_bytes_, " bytes (--host-memory)"));
    }
    used_bytes_ += capacity_bytes;
    if (auto kept = kept_.find(capacity_bytes); kept != kept_.end()) {
      std::byte* data = kept->second.back();
      kept->second.pop_back();
      if (kept->second.empty()) kept_.erase(kept);
      kept_bytes_ -= capacity_bytes;
      return HostBuffer(shared_from_this(), data, size_bytes, capacity_bytes);
    }
    evicted = MakeRoom();
  }
  // The system is called without the lock: page-locking takes milliseconds.
  for (auto [data, bytes] : evicted) memory_.Free(data, bytes);
  auto* data = static_cast<std::byte*>(memory_.Allocate(capacity_bytes));
  if (data == nullptr) {
    std::lock_guard lock(mutex_);
    used_bytes_ -= capacity_bytes;
    return ErrorWithReason(Reason::kMemoryFull,
                           absl::StrCat("the system has no ", capacity_bytes,
                                        " bytes of host memory to give for the moment"));
  }
  return HostBuffer(shared_from_this(), data, size_bytes, capacity_bytes);
}

std::vector<std::pair<std::byte*, size_t>> HostPool::MakeRoom() {
  std::vector<std::pair<std::byte*, size_t>> evicted;
  while (used_bytes_ + kept_bytes_ > budget_bytes_) {
    auto largest = std::prev(kept_.end());
    evicted.emplace_back(largest->second.back(), largest->first);
    kept_bytes_ -= largest->first;
    largest->second.pop_back();
    if (largest->second.empty()) kept_.erase(largest);
  }
  return evicted;
}

void HostPool::Return(std::byte* data, size_t capacity_bytes) {
  std::lock_guard lock(mutex_);
  used_bytes_ -= capacity_bytes;
  kept_bytes_ += capacity_bytes;
  kept_[capacity_bytes].push_back(data);
}

uint64_t HostPool::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_bytes_;
}

uint64_t HostPool::reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return used_bytes_ + kept_bytes_;
}

}  // namespace gemm
