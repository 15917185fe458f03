// From the bytes of a request to a checked problem: pure, so that it can be tested and fuzzed
// without a server.

#ifndef GEMMD_SERVER_RPC_DECODE_H_
#define GEMMD_SERVER_RPC_DECODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gemm/v1/gemm.pb.h"
#include "kernels/gemm.h"
#include "proto/bulk_message.h"
#include "server/engine/job.h"
#include "server/memory/device_matrix.h"

namespace gemm {

// A payload's way into Job::input.
struct PayloadCopy {
  PayloadRange source;
  size_t offset_bytes = 0;
};

// A result that is to stay on the server.
struct DecodedResult {
  size_t product = 0;  // index
  std::string name;    // empty: one is to be made up
  MatrixSpec spec;
  absl::Duration time_to_live = absl::ZeroDuration();  // zero: the default
};

// A request, ready to become a Job. Where a product was refused, its status says why and nothing
// else of it counts.
struct DecodedProducts {
  absl::InlinedVector<JobProduct, 1> products;
  // Only payloads that a product reads, each once, in the order in which they lie in the message.
  std::vector<PayloadCopy> copies;
  std::vector<DecodedResult> results;  // in the order of their products
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// What decoding needs to know of the server.
struct DecodeContext {
  uint64_t reply_limit_bytes;
  absl::Duration time_to_live_limit;
  // A sealed matrix that stays on the server, by its name. Errors as MatrixStore::Use.
  absl::FunctionRef<absl::StatusOr<std::shared_ptr<const DeviceMatrix>>(const std::string&)>
      find_matrix;
};

// Check everything about a request but the values of its elements. Errors carry the field.
// `request_id` is set as soon as it is known, so that a refusal can be logged under it.
absl::StatusOr<DecodedProducts> DecodeMultiply(absl::Span<const Segment> message,
                                               const DecodeContext& context,
                                               std::string& request_id);
// An error of one product is in its status; what is returned concerns the whole message.
absl::StatusOr<DecodedProducts> DecodeMultiplyBatch(absl::Span<const Segment> message,
                                                    const DecodeContext& context,
                                                    std::string& request_id);

// Errors name `field`.
absl::StatusOr<DType> DecodeDataType(v1::DataType data_type, const std::string& field);

// The problem that a Product describes, validated. Operands that are left out are taken as dense
// when `operands_optional`, as are rows of matrices that stay on the server.
absl::StatusOr<Problem> DecodeProduct(const v1::Product& product, bool operands_optional);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_DECODE_H_
