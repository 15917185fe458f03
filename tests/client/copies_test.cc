// How often a payload's bytes are copied on the host, from the caller's operands to the caller's D:
// counted in memcpy, memmove and StreamCopy themselves, with client and server in this process.
// (The kernel's copies at the sockets are not among them.)

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "gemmd/client.h"
#include "proto/stream_copy.h"
#include "tests/client/connect_to.h"
#include "tests/client/local_server.h"

namespace {

// The bytes copied while counting, and those of them that came from or went to the caller's memory.
struct Region {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<uint64_t> bytes{0};

  void Count(const void* pointer, size_t size) {
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    if (at >= begin && at < end) bytes += size;
  }
};

std::atomic<bool> counting{false};
std::atomic<uint64_t> copied_bytes{0};
Region operands;
Region result;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)
namespace {

void Count(const void* to, const void* from, size_t size) {
  if (!counting) return;
  copied_bytes += size;
  operands.Count(from, size);
  result.Count(to, size);
}

void CopyUp(void* to, const void* from, size_t size) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

void CopyDown(void* to, const void* from, size_t size) {
  auto* last_to = static_cast<char*>(to) + size - 1;
  const auto* last_from = static_cast<const char*>(from) + size - 1;
  asm volatile("std; rep movsb; cld" : "+D"(last_to), "+S"(last_from), "+c"(size) : : "memory");
}

}  // namespace

// Every library of the process finds these first.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the names that the C library has for them
void* memcpy(void* __restrict to, const void* __restrict from, size_t size) noexcept {
  Count(to, from, size);
  CopyUp(to, from, size);
  return to;
}
void* memmove(void* to, const void* from, size_t size) noexcept {
  Count(to, from, size);
  if (size == 0) return to;
  if (to <= from || static_cast<char*>(to) >= static_cast<const char*>(from) + size) {
    CopyUp(to, from, size);
  } else {
    CopyDown(to, from, size);
  }
  return to;
}
void* __memcpy_chk(void* to, const void* from, size_t size, size_t /*room*/) {
  return memcpy(to, from, size);
}
void* __memmove_chk(void* to, const void* from, size_t size, size_t /*room*/) {
  return memmove(to, from, size);
}
// NOLINTEND(bugprone-reserved-identifier)
}

namespace gemm {

// In place of the library's, whose stores nobody would count.
void StreamCopy(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }

}  // namespace gemm
#endif

namespace gemm {
namespace {

constexpr int64_t kRows = 4 << 20;
constexpr uint64_t kBytes = kRows * sizeof(float);  // of A, and of D: A is a column, B one number
// Descriptions, headers, and what gRPC and the metrics do beside.
constexpr uint64_t kSmallChange = 512 << 10;

class CopiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the sanitizer has a memcpy of its own";
#endif
  }

  // `multiply` is done once before it is counted, so that pools and connections are there.
  template <typename Multiply>
  void CountCopies(const std::vector<float>& a, const std::vector<float>& d, Multiply multiply) {
    multiply();
    Watch(operands, a);
    Watch(result, d);
    copied_bytes = 0;
    counting = true;
    multiply();
    counting = false;
  }

  static void Watch(Region& region, const std::vector<float>& values) {
    region.begin = reinterpret_cast<uintptr_t>(values.data());
    region.end = reinterpret_cast<uintptr_t>(values.data() + values.size());
    region.bytes = 0;
  }

  MultiplyArgs<float> Args(const std::vector<float>& a, std::vector<float>& d) const {
    MultiplyArgs<float> args;
    args.m = kRows;
    args.n = 1;
    args.k = 1;
    args.a.data = a;
    args.b.data = b_;
    args.d.data = d;
    return args;
  }

  void Multiply(const MultiplyArgs<float>& args) {
    const auto report = client_.Multiply(args);
    ASSERT_TRUE(report.ok()) << report.status();
  }

  const std::vector<float> b_ = {3};
  const testing::LocalServer server_;
  const Client client_ = testing::ConnectTo(server_.address());
};

TEST_F(CopiesTest, TheCounterCounts) {
  ASSERT_TRUE(client_.GetServerInfo().ok());  // or else it would connect while bytes are counted
  const std::vector<float> a(kRows, 2);
  std::vector<float> d(kRows);
  CountCopies(a, d, [&] { std::copy(a.begin(), a.end(), d.begin()); });
  EXPECT_GE(copied_bytes, kBytes);
  EXPECT_LT(copied_bytes, kBytes + kSmallChange);  // what gRPC's threads do besides
  EXPECT_EQ(operands.bytes, kBytes);
  EXPECT_EQ(result.bytes, kBytes);
}

TEST_F(CopiesTest, OneOnTheServerAndOneInTheClient) {
  const std::vector<float> a(kRows, 2);
  std::vector<float> d(kRows);
  CountCopies(a, d, [&] { Multiply(Args(a, d)); });
  EXPECT_EQ(d, std::vector<float>(kRows, 6));
  EXPECT_EQ(operands.bytes, 0u);        // sent from where they are
  EXPECT_EQ(result.bytes, kBytes);      // from gRPC's slices into place
  EXPECT_GE(copied_bytes, 2 * kBytes);  // and from gRPC's slices into page-locked memory
  EXPECT_LT(copied_bytes, 2 * kBytes + kSmallChange);  // the reply leaves from such memory itself
}

TEST_F(CopiesTest, MatricesLeaveFromWhereTheyAreAndArriveWithOneCopy) {
  const std::vector<float> a(kRows, 2);
  std::vector<float> d(kRows);
  CountCopies(a, d, [&] {
    const auto put =
        client_.Put<float>({.name = "a", .rows = kRows / 1024, .columns = 1024, .data = a});
    ASSERT_TRUE(put.ok()) << put.status();
    const auto got = client_.Get<float>({.name = "a"}, d);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(client_.DeleteMatrix("a").ok());
  });
  EXPECT_EQ(d, a);
  EXPECT_EQ(operands.bytes, 0u);    // sent from where they are
  EXPECT_EQ(result.bytes, kBytes);  // from gRPC's slices into place
}

TEST_F(CopiesTest, PaddedRowsArePackedOnceAndPlacedOnce) {
  constexpr int64_t kStride = 3;  // sparse enough to be packed
  const std::vector<float> a(kRows * kStride, 2);
  std::vector<float> d(kRows * kStride);
  MultiplyArgs<float> args = Args(a, d);
  args.a.leading_dimension = kStride;
  args.d.leading_dimension = kStride;
  CountCopies(a, d, [&] { Multiply(args); });
  EXPECT_EQ(d[0], 6);
  EXPECT_EQ(d[1], 0);
  EXPECT_EQ(operands.bytes, kBytes);
  EXPECT_EQ(result.bytes, kBytes);
  EXPECT_GE(copied_bytes, 3 * kBytes);
  EXPECT_LT(copied_bytes, 3 * kBytes + kSmallChange);
}

}  // namespace
}  // namespace gemm
