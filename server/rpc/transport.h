// How the server's connections are set up: one place for gemmd and for the bench that says how fast
// such connections can be.

#ifndef GEMMD_SERVER_RPC_TRANSPORT_H_
#define GEMMD_SERVER_RPC_TRANSPORT_H_

#include <grpcpp/server_builder.h>

#include <cstdint>

namespace gemm {

// Has each thread that waits for gRPC's events poll its own connections (GRPC_POLL_STRATEGY=poll,
// unless the environment says otherwise). Early in main: gRPC reads it once a process.
//
// By default gRPC (1.51) has one epoll set a process and one thread at a time that waits on it.
// Whoever finds an event first wakes the next one, so that wake-ups stand in line. The price is
// that a look takes 0.3 us longer with each connection that its thread has, idle or not.
void SetPolling();

// Everything about the server's connections but their addresses and services.
void SetTransport(uint64_t message_limit_bytes, grpc::ServerBuilder& builder);

// The same for a listener of our own: what its connections inherit, as gRPC sets it on its own.
// `within_host`: it listens on a loopback address. Before it listens.
void SetTransport(int listening_fd, bool within_host);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_TRANSPORT_H_
