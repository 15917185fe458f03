// From the bytes of a request to a checked problem: pure, so that it can be tested and fuzzed
// without a server.

#ifndef GEMMD_SERVER_RPC_DECODE_H_
#define GEMMD_SERVER_RPC_DECODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gemm/v1/gemm.pb.h"
#include "kernels/gemm.h"
#include "proto/bulk_message.h"
#include "server/engine/job.h"

namespace gemm {

// A payload's way into Job::input.
struct PayloadCopy {
  PayloadRange source;
  size_t offset_bytes = 0;
};

// A request, ready to become a Job. Where a product was refused, its status says why and nothing
// else of it counts.
struct DecodedProducts {
  absl::InlinedVector<JobProduct, 1> products;
  // Only payloads that a product reads, each once, in the order in which they lie in the message.
  std::vector<PayloadCopy> copies;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

inline constexpr size_t kMaxBatchProducts = 4096;  // of one MultiplyBatch

// Check everything about a request but the values of its elements. Errors carry the field.
// `request_id` is set as soon as it is known, so that a refusal can be logged under it.
absl::StatusOr<DecodedProducts> DecodeMultiply(absl::Span<const Segment> message,
                                               uint64_t reply_limit_bytes, std::string& request_id);
// An error of one product is in its status; what is returned concerns the whole message.
absl::StatusOr<DecodedProducts> DecodeMultiplyBatch(absl::Span<const Segment> message,
                                                    uint64_t reply_limit_bytes,
                                                    std::string& request_id);

// The problem that a Product describes, validated. Operands that are left out are taken as dense
// when `operands_optional`.
absl::StatusOr<Problem> DecodeProduct(const v1::Product& product, bool operands_optional);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_DECODE_H_
