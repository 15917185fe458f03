#include "client/cpp/internal/borrowed_memory.h"

#include <gtest/gtest.h>

#include <optional>

namespace gemm::client {
namespace {

TEST(BorrowedMemoryTest, SaysWhenTheLastSliceIsBack) {
  const char bytes[100] = {};
  BorrowedMemory memory;
  std::optional<grpc::Slice> first = memory.Lend(bytes, 50);
  std::optional<grpc::Slice> second = memory.Lend(bytes + 50, 50);
  std::optional<grpc::Slice> copy = second;
  int returned = 0;
  memory.WhenReturned([&] { ++returned; });
  first.reset();
  second.reset();
  EXPECT_EQ(returned, 0);
  copy.reset();
  EXPECT_EQ(returned, 1);
}

TEST(BorrowedMemoryTest, SaysItAtOnceWhenNothingIsLent) {
  const char bytes[100] = {};
  BorrowedMemory memory;
  memory.Lend(bytes, sizeof bytes);
  bool returned = false;
  memory.WhenReturned([&] { returned = true; });
  EXPECT_TRUE(returned);
}

TEST(BorrowedMemoryTest, MayEndInItsOwnNews) {
  const char bytes[100] = {};
  auto memory = std::make_unique<BorrowedMemory>();
  std::optional<grpc::Slice> slice = memory->Lend(bytes, sizeof bytes);
  memory->WhenReturned([&] { memory.reset(); });
  slice.reset();
  EXPECT_EQ(memory, nullptr);
}

}  // namespace
}  // namespace gemm::client
