#include "server/rpc/unsent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/time/time.h"
#include "server/engine/clock.h"

namespace gemm {
namespace {

class UnsentTest : public testing::Test {
 protected:
  UnsentTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_.data()), 0); }
  ~UnsentTest() override {
    for (const int fd : pair_) close(fd);
  }

  void Send() { EXPECT_EQ(write(pair_[0], "12345678", 8), 8); }
  void Receive() {
    std::array<char, 8> bytes{};
    EXPECT_EQ(read(pair_[1], bytes.data(), bytes.size()), 8);
  }
  static absl::Time Soon() { return SteadyNow() + absl::Milliseconds(20); }

  Unsent unsent_;
  std::array<int, 2> pair_{};
};

TEST_F(UnsentTest, WaitsUntilThePeerHasReadWhatWasSent) {
  EXPECT_TRUE(unsent_.WaitForNone(Soon()));
  Send();
  EXPECT_FALSE(unsent_.WaitForNone(Soon()));
  Receive();
  EXPECT_TRUE(unsent_.WaitForNone(Soon()));
}

TEST_F(UnsentTest, NeedsNoDescriptorToLook) {
  Send();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(open("/proc/self/fd", O_RDONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_FALSE(unsent_.WaitForNone(Soon()));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(UnsentTest, GivesUpOnAPeerThatReadsNothing) {
  Send();
  const absl::Time start = SteadyNow();
  EXPECT_FALSE(unsent_.WaitForNone(start + absl::Seconds(60)));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(30));
}

}  // namespace
}  // namespace gemm
