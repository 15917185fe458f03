#include "server/rpc/unsent.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/time/clock.h"

namespace gemm {
namespace {

bool HasUnsent(int fd) {
  int bytes = 0;
  // Fails for what is not a socket; 0 for one that listens.
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

bool AnyUnsent() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd >= 0 && HasUnsent(fd)) return true;
  }
  return false;
}

}  // namespace

bool WaitUntilSent(absl::Time deadline) {
  while (AnyUnsent()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

}  // namespace gemm
