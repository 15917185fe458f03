#include "server/rpc/unsent.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/time/clock.h"

namespace gemm {
namespace {

constexpr absl::Duration kReadsNothing = absl::Seconds(2);

struct Unsent {
  int64_t unix_bytes = 0;
  int64_t other_bytes = 0;
};

bool IsUnixSocket(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

Unsent UnsentNow() {
  Unsent unsent;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    int bytes = 0;
    // Fails for what is not a socket; 0 for one that listens.
    if (fd < 0 || ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes <= 0) continue;
    (IsUnixSocket(fd) ? unsent.unix_bytes : unsent.other_bytes) += bytes;
  }
  return unsent;
}

}  // namespace

bool WaitUntilSent(absl::Time deadline) {
  int64_t unix_bytes_before = 0;
  absl::Time changed = absl::Now();
  for (;;) {
    const Unsent unsent = UnsentNow();
    if (unsent.unix_bytes == 0 && unsent.other_bytes == 0) return true;
    const absl::Time now = absl::Now();
    if (unsent.unix_bytes != unix_bytes_before) changed = now;
    unix_bytes_before = unsent.unix_bytes;
    const bool waits_for_somebody = unsent.other_bytes > 0 || now < changed + kReadsNothing;
    if (now >= deadline || !waits_for_somebody) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
}

}  // namespace gemm
