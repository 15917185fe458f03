// From a job that has run to the bytes of its reply.

#ifndef GEMMD_SERVER_RPC_REPLY_H_
#define GEMMD_SERVER_RPC_REPLY_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/job.h"
#include "server/memory/matrix_store.h"

namespace gemm {

// What a call spent before its job was submitted.
struct CallTimes {
  absl::Duration admit = absl::ZeroDuration();
  absl::Duration receive = absl::ZeroDuration();
  absl::Duration decode = absl::ZeroDuration();
};

// Of a job's results, those that stay on the server, by index of the product.
using KeptResults = std::map<size_t, MatrixState>;

// The reply, or what the call fails with. Large results are not copied: the reply refers to the
// job's output, takes it over, and gives it back to its pool when gRPC lets go of it.
absl::StatusOr<grpc::ByteBuffer> MakeMultiplyReply(Job& job, const CallTimes& times,
                                                   const KeptResults& kept = {});
absl::StatusOr<grpc::ByteBuffer> MakeMultiplyBatchReply(Job& job, const CallTimes& times,
                                                        const KeptResults& kept = {});

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_REPLY_H_
