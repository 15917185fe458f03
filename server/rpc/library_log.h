// The log records of gRPC and protobuf, as records of ours.

#ifndef GEMMD_SERVER_RPC_LIBRARY_LOG_H_
#define GEMMD_SERVER_RPC_LIBRARY_LOG_H_

namespace gemm {

// From now on neither library writes lines of its own, which callers could cause at will and which
// would break a JSON log. Before the first use of gRPC; idempotent.
void CaptureLibraryLogs();

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_LIBRARY_LOG_H_
