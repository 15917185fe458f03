#include "server/rpc/transport.h"

#include <grpc/grpc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

namespace gemm {
namespace {

// A peer that is gone without a word (a suspended laptop, a cut cable) is found out after this
// long; until then its calls keep what they were admitted.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

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

void SetTransport(int listening_fd) {
  const int on = 1;
  setsockopt(listening_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(listening_fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kKeepaliveTimeoutMs,
             sizeof(kKeepaliveTimeoutMs));
}

}  // namespace gemm
