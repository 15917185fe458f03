// How the server's connections are set up: one place for gemmd and for the bench that says how fast
// such connections can be.

#ifndef GEMMD_SERVER_RPC_TRANSPORT_H_
#define GEMMD_SERVER_RPC_TRANSPORT_H_

#include <grpcpp/server_builder.h>

#include <cstdint>

namespace gemm {

// Everything about the server's connections but their addresses and services.
void SetTransport(uint64_t message_limit_bytes, grpc::ServerBuilder& builder);

// The same for a listener of our own: what its connections inherit, as gRPC sets it on its own.
void SetTransport(int listening_fd);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_TRANSPORT_H_
