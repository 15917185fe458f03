#include "server/memory/host_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "server/reason.h"

namespace gemm {
namespace {

constexpr size_t kMiB = 1 << 20;

// Counts what the system has given, and can have none left.
class CountingMemory final : public HostMemory {
 public:
  void* Allocate(size_t size_bytes) override {
    if (fail) return nullptr;
    ++allocations;
    live_bytes += size_bytes;
    return memory_.Allocate(size_bytes);
  }
  void Free(void* data, size_t size_bytes) override {
    live_bytes -= size_bytes;
    memory_.Free(data, size_bytes);
  }

  std::atomic<bool> fail{false};
  std::atomic<int> allocations{0};
  std::atomic<size_t> live_bytes{0};

 private:
  PageableMemory memory_;
};

TEST(HostPoolTest, SizeClassesLoseAtMostAQuarter) {
  for (size_t size = 1; size < 40 * kMiB; size = size * 9 / 8 + 1) {
    const size_t capacity = HostPool::SizeClass(size);
    EXPECT_GE(capacity, size);
    if (size > 4096) {
      EXPECT_LE(capacity, size + size / 4) << size;
    }
    EXPECT_EQ(HostPool::SizeClass(capacity), capacity);
  }
}

TEST(HostPoolTest, ReusesWhatCameBack) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 16 * kMiB);
  for (int i = 0; i < 10; ++i) {
    auto buffer = pool->Allocate(kMiB - i);
    ASSERT_TRUE(buffer.ok());
    std::memset(buffer->data(), i, buffer->size_bytes());
  }
  EXPECT_EQ(memory.allocations, 1);
  EXPECT_EQ(pool->used_bytes(), 0u);
  EXPECT_EQ(pool->reserved_bytes(), kMiB);
}

TEST(HostPoolTest, KeptMemoryMakesRoomForAnotherSize) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 4 * kMiB);
  { auto a = *pool->Allocate(3 * kMiB), b = *pool->Allocate(kMiB); }
  EXPECT_EQ(pool->reserved_bytes(), 4 * kMiB);
  auto buffer = pool->Allocate(2 * kMiB);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_LE(memory.live_bytes, 4 * kMiB);
}

TEST(HostPoolTest, SaysWhetherWaitingWouldHelp) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 4 * kMiB);
  EXPECT_EQ(ReasonOf(pool->Allocate(5 * kMiB).status()), Reason::kMemoryTooSmall);
  EXPECT_EQ(ReasonOf(pool->Allocate(SIZE_MAX).status()), Reason::kMemoryTooSmall);
  auto held = pool->Allocate(3 * kMiB);
  EXPECT_EQ(ReasonOf(pool->Allocate(2 * kMiB).status()), Reason::kMemoryFull);
  held->~HostBuffer();
  new (&*held) HostBuffer();
  EXPECT_TRUE(pool->Allocate(2 * kMiB).ok());
}

TEST(HostPoolTest, WaitingDoesNotHelpTwoBuffersThatOnlyFitOneByOne) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 4 * kMiB);
  auto input = *pool->Allocate(2 * kMiB + 1);  // counted as 2.5 MiB
  EXPECT_EQ(ReasonOf(pool->Allocate(2 * kMiB, input).status()), Reason::kMemoryTooSmall);
  EXPECT_EQ(ReasonOf(pool->Allocate(2 * kMiB).status()), Reason::kMemoryFull);
  EXPECT_TRUE(pool->Allocate(3 * kMiB / 2, input).ok());
  EXPECT_EQ(ReasonOf(pool->Allocate(SIZE_MAX, input).status()), Reason::kMemoryTooSmall);
}

TEST(HostPoolTest, AFailedAllocationIsNotCounted) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 4 * kMiB);
  memory.fail = true;
  EXPECT_EQ(ReasonOf(pool->Allocate(kMiB).status()), Reason::kMemoryFull);
  EXPECT_EQ(pool->used_bytes(), 0u);
  memory.fail = false;
  EXPECT_TRUE(pool->Allocate(4 * kMiB).ok());
}

TEST(HostPoolTest, EmptyBuffersCostNothing) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 4 * kMiB);
  auto buffer = pool->Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE(buffer->empty());
  EXPECT_EQ(memory.allocations, 0);
}

TEST(HostPoolTest, ABufferOutlivesItsPoolsOwner) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 4 * kMiB);
  auto buffer = *pool->Allocate(kMiB);
  pool.reset();
  std::memset(buffer.data(), 1, buffer.size_bytes());
  { HostBuffer last = std::move(buffer); }
  EXPECT_EQ(memory.live_bytes, 0u);
}

TEST(HostPoolTest, StaysWithinItsBudgetUnderContention) {
  CountingMemory memory;
  auto pool = HostPool::Create(memory, 8 * kMiB);
  std::atomic<size_t> most{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto buffer = pool->Allocate((1 + (i * 7 + t) % 5) * kMiB / 2);
        if (buffer.ok()) buffer->data()[0] = std::byte{1};
        size_t seen = pool->reserved_bytes(), before = most;
        while (seen > before && !most.compare_exchange_weak(before, seen)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 8 * kMiB);
  EXPECT_EQ(pool->used_bytes(), 0u);
  pool.reset();
  EXPECT_EQ(memory.live_bytes, 0u);
}

}  // namespace
}  // namespace gemm
