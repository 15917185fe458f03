// The two messages of a Multiply or a MultiplyBatch call: the request, whose payloads stay in the
// caller's memory, and the reply, whose payloads are copied once into the caller's memory.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_MULTIPLY_MESSAGE_H_
#define GEMMD_CLIENT_CPP_INTERNAL_MULTIPLY_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/cpp/internal/borrowed_memory.h"
#include "client/cpp/internal/checked_product.h"
#include "gemmd/multiply.h"

namespace gemm::client {

// What an operand takes of a request.
uint64_t PayloadBytes(const MatrixBytes& matrix);

// The request in wire format: [description][header][operand][header][operand]... Operands that are
// the same bytes go once. RESOURCE_EXHAUSTED when it or its reply is over the limit.
absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedProduct& product, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory);
absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedBatch& batch, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory);

// Copies each D into place and fills in what the server reports. INTERNAL when the reply is not one
// to this request; every D is then untouched.
absl::StatusOr<MultiplyReport> Decode(const grpc::ByteBuffer& reply, const CheckedProduct& product);
absl::StatusOr<MultiplyBatchReport> Decode(const grpc::ByteBuffer& reply,
                                           const CheckedBatch& batch);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_MULTIPLY_MESSAGE_H_
