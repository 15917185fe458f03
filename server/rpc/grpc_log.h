// gRPC's own log records, as records of ours.

#ifndef GEMMD_SERVER_RPC_GRPC_LOG_H_
#define GEMMD_SERVER_RPC_GRPC_LOG_H_

namespace gemm {

// From now on gRPC writes no lines of its own. Before the first use of gRPC; idempotent.
void CaptureGrpcLog();

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_GRPC_LOG_H_
