#include "server/memory/byte_budget.h"

namespace gemm {

void ByteBudget::Take(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const uint64_t turn = next_turn_++;
  changed_.wait(lock, [&] { return turn == turn_ && bytes <= limit_bytes_ - used_bytes_; });
  ++turn_;
  used_bytes_ += bytes;
  changed_.notify_all();  // the next in line may fit too
}

void ByteBudget::Give(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
  changed_.notify_all();
}

uint64_t ByteBudget::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace gemm
