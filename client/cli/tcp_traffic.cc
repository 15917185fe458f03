#include "client/cli/tcp_traffic.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace gemm::cli {

std::optional<TcpTraffic> TcpTrafficNow() {
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(opendir("/proc/self/fd"), closedir);
  if (descriptors == nullptr) return std::nullopt;
  std::optional<TcpTraffic> sum;
  while (const dirent* entry = readdir(descriptors.get())) {
    tcp_info info = {};
    socklen_t size = sizeof info;
    // Fails for all that is not a TCP socket.
    if (getsockopt(std::atoi(entry->d_name), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) continue;
    if (!sum) sum.emplace();
    sum->sent_bytes += info.tcpi_bytes_acked;
    sum->received_bytes += info.tcpi_bytes_received;
  }
  return sum;
}

}  // namespace gemm::cli
