// A budget of bytes that threads take from and give back to, in the order in which they come.

#ifndef GEMMD_SERVER_MEMORY_BYTE_BUDGET_H_
#define GEMMD_SERVER_MEMORY_BYTE_BUDGET_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace gemm {

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Waits until `bytes`, at most the limit, are free and everyone who came before has been served.
  // A thread that holds some must not take more: two such could wait for each other.
  void Take(uint64_t bytes);
  void Give(uint64_t bytes);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const;

 private:
  const uint64_t limit_bytes_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable changed_;
  uint64_t used_bytes_ = 0;
  uint64_t next_turn_ = 0;  // of who comes next
  uint64_t turn_ = 0;       // of who is served next
};

// What was taken, given back when it is destroyed.
class TakenBytes {
 public:
  TakenBytes(ByteBudget& budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {
    budget_.Take(bytes_);
  }
  ~TakenBytes() { budget_.Give(bytes_); }
  TakenBytes(const TakenBytes&) = delete;
  TakenBytes& operator=(const TakenBytes&) = delete;

 private:
  ByteBudget& budget_;
  const uint64_t bytes_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_BYTE_BUDGET_H_
