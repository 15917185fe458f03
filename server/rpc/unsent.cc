#include "server/rpc/unsent.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <charconv>
#include <string_view>

#include "absl/time/clock.h"
#include "server/engine/clock.h"

namespace gemm {
namespace {

constexpr absl::Duration kReadsNothing = absl::Seconds(2);

bool IsUnixSocket(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

}  // namespace

Unsent::Unsent() : files_(opendir("/proc/self/fd")) {}

Unsent::~Unsent() {
  if (files_ != nullptr) closedir(files_);
}

Unsent::Bytes Unsent::Now() {
  Bytes unsent;
  if (files_ == nullptr) return unsent;
  rewinddir(files_);
  while (const dirent* entry = readdir(files_)) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    int bytes = 0;
    // Fails for what is not a socket; 0 for one that listens.
    if (fd < 0 || ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes <= 0) continue;
    (IsUnixSocket(fd) ? unsent.unix_sockets : unsent.others) += bytes;
  }
  return unsent;
}

bool Unsent::WaitForNone(absl::Time deadline) {
  int64_t unix_bytes_before = 0;
  absl::Time changed = SteadyNow();
  for (;;) {
    const Bytes unsent = Now();
    if (unsent.unix_sockets == 0 && unsent.others == 0) return true;
    const absl::Time now = SteadyNow();
    if (unsent.unix_sockets != unix_bytes_before) changed = now;
    unix_bytes_before = unsent.unix_sockets;
    const bool waits_for_somebody = unsent.others > 0 || now < changed + kReadsNothing;
    if (now >= deadline || !waits_for_somebody) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
}

}  // namespace gemm
