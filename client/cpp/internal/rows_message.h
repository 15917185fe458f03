// The two messages of WriteRows and of ReadRows: rows leave from, and are copied once into, the
// caller's memory.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_ROWS_MESSAGE_H_
#define GEMMD_CLIENT_CPP_INTERNAL_ROWS_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/cpp/internal/borrowed_memory.h"
#include "client/cpp/internal/checked_rows.h"
#include "gemmd/matrix.h"

namespace gemm::client {

// RESOURCE_EXHAUSTED when it or its reply is over the limit. Rows with padding are packed first.
absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedWrite& write, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory);
absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedRead& read, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory);

// INTERNAL when the reply is not one to this request, INVALID_ARGUMENT when the matrix turns out to
// be of another type, or the rows to be of another size, than the caller's memory. What was to be
// read is then untouched.
absl::StatusOr<MatrixInfo> Decode(const grpc::ByteBuffer& reply, const CheckedWrite& write);
absl::StatusOr<MatrixInfo> Decode(const grpc::ByteBuffer& reply, const CheckedRead& read);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_ROWS_MESSAGE_H_
