// Messages decoded as the server does, with matrices that there are.

#ifndef GEMMD_TESTS_SERVER_RPC_DECODE_CALLS_H_
#define GEMMD_TESTS_SERVER_RPC_DECODE_CALLS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/rpc/decode.h"
#include "tests/server/rpc/known_matrices.h"
#include "tests/server/rpc/request_bytes.h"

namespace gemm {

inline constexpr uint64_t kReplyLimit = 64 << 20;

inline const JobProduct& Only(const absl::StatusOr<DecodedProducts>& decoded) {
  return decoded->products.front();
}

inline absl::StatusOr<DecodedProducts> Decode(const v1::MultiplyRequest& request,
                                              uint64_t reply_limit_bytes = kReplyLimit) {
  const std::string wire = request.SerializeAsString();
  std::string request_id;
  return DecodeMultiply(Cut(wire, 8192), WithKnownMatrices(reply_limit_bytes), request_id);
}

inline absl::StatusOr<DecodedProducts> DecodeBatch(const v1::MultiplyBatchRequest& request,
                                                   uint64_t reply_limit_bytes = kReplyLimit) {
  const std::string wire = request.SerializeAsString();
  std::string request_id;
  return DecodeMultiplyBatch(Cut(wire, 8192), WithKnownMatrices(reply_limit_bytes), request_id);
}

}  // namespace gemm

#endif  // GEMMD_TESTS_SERVER_RPC_DECODE_CALLS_H_
