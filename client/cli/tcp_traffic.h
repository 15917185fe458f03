// What this process's TCP connections have moved, by the kernel's count: gRPC itself tells nothing
// of a message on its way.

#ifndef GEMMD_CLIENT_CLI_TCP_TRAFFIC_H_
#define GEMMD_CLIENT_CLI_TCP_TRAFFIC_H_

#include <cstdint>
#include <optional>

namespace gemm::cli {

struct TcpTraffic {
  uint64_t sent_bytes = 0;  // and acknowledged by the other side
  uint64_t received_bytes = 0;
};

// Over the connections that are open now; nothing if there is none, as with a unix socket.
std::optional<TcpTraffic> TcpTrafficNow();

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_TCP_TRAFFIC_H_
