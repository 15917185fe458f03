#include "server/rpc/transport.h"

#include <grpc/grpc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gemm {
namespace {

// A peer that is gone without a word (a suspended laptop, a cut cable) is found out after this
// long; until then its calls keep what they were admitted.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

// Bytes between two processes of a host are copied into the kernel and out of it. What lies there
// meanwhile grows to several MiB a connection if it is let, which come back from memory instead of
// a cache. (What has been received is not bounded: more of it would then lie in gRPC's own
// buffers.)
constexpr int kSendBytesWithinHost = 512 << 10;  // of which the kernel makes twice as much

// False where the system allows less (net.core.wmem_max): too little would cost more.
bool BoundSendBuffer(int fd) {
  int bytes = 0;
  socklen_t size = sizeof(bytes);
  return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBytesWithinHost,
                    sizeof(kSendBytesWithinHost)) == 0 &&
         getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0 &&
         bytes >= 2 * kSendBytesWithinHost;
}

bool MayBoundSendBuffer() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool may = BoundSendBuffer(fd);
  close(fd);
  return may;
}

}  // namespace

void SetPolling() { setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0); }

void SetTransport(uint64_t message_limit_bytes, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.SetMaxReceiveMessageSize(static_cast<int>(message_limit_bytes));
  builder.SetMaxSendMessageSize(-1);
  // A compressed message is inflated before its size can be checked.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

void SetTransport(int listening_fd, bool within_host) {
  const int on = 1;
  setsockopt(listening_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(listening_fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kKeepaliveTimeoutMs,
             sizeof(kKeepaliveTimeoutMs));
  if (within_host && MayBoundSendBuffer()) BoundSendBuffer(listening_fd);
}

}  // namespace gemm
