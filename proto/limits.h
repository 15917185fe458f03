// What the contract lets a message have, as gemm.proto says; for server and client alike.

#ifndef GEMMD_PROTO_LIMITS_H_
#define GEMMD_PROTO_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace gemm {

inline constexpr int64_t kMaxMessageBytes = INT32_MAX;  // protobuf's own
inline constexpr int64_t kMaxBatchCount = INT32_MAX;
inline constexpr size_t kMaxBatchProducts = 4096;  // of one MultiplyBatch
inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxMatrixNameBytes = 128;

}  // namespace gemm

#endif  // GEMMD_PROTO_LIMITS_H_
