// Clients that come and go, as in a program that makes one for each of its jobs.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gemmd/client.h"
#include "tests/client/fake_server.h"

namespace gemm {
namespace {

// The sanitizer keeps freed memory for a while, and is slow.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr int kClients = kSanitized ? 1000 : 10'000;

int64_t ResidentBytes() {
  int64_t total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int64_t CountEntries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}

// One call that waits and one that calls back.
void UseAClient(const std::string& address) {
  const absl::StatusOr<Client> client = Client::Connect({.address = address});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<float> x = {3};
  std::vector<float> d(1);
  const MultiplyArgs<float> args = {
      .m = 1, .n = 1, .k = 1, .a = {.data = x}, .b = {.data = x}, .d = {.data = d}};
  ASSERT_TRUE(client->Multiply(args).ok());
  absl::Notification over;
  client->MultiplyAsync(args, [&over](const absl::StatusOr<MultiplyReport>& report) {
    EXPECT_TRUE(report.ok()) << report.status();
    over.Notify();
  });
  over.WaitForNotification();
}

TEST(LifetimeTest, ThousandsOfClientsLeaveNothingBehind) {
  const testing::FakeServer server;
  const auto use = [&](int clients) {
    for (int i = 0; i < clients; ++i) UseAClient(server.address());
  };
  use(kClients / 5);
  const int64_t resident_bytes = ResidentBytes();
  const int64_t descriptors = CountEntries("/proc/self/fd");
  const int64_t threads = CountEntries("/proc/self/task");
  use(kClients);
  EXPECT_NEAR(CountEntries("/proc/self/fd"), descriptors, 32);  // the last ones are still closing
  EXPECT_NEAR(CountEntries("/proc/self/task"), threads, 8);     // gRPC's own come and go
  if (!kSanitized) {
    EXPECT_LT(ResidentBytes(), resident_bytes + int64_t{kClients} * 1024);
  }
}

}  // namespace
}  // namespace gemm
