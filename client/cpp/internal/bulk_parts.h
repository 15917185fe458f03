// What messages with bulk data are put together from, and taken apart into: gRPC's slices.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_BULK_PARTS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_BULK_PARTS_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/internal/matrix_bytes.h"
#include "proto/bulk_message.h"

namespace gemm::client {

// RESOURCE_EXHAUSTED, with `reason`, when `what` ("request") has more bytes than a message may.
absl::Status CheckSize(const char* what, const char* reason, uint64_t bytes, uint64_t limit_bytes);

// A dense copy, owned by the slice.
grpc::Slice Pack(const MatrixBytes& matrix);

// INTERNAL.
absl::Status BadReply(const std::string& fault);

struct BulkReply {
  std::vector<grpc::Slice> slices;
  std::vector<Segment> segments;  // over the slices
  BulkIndex index;
};

absl::StatusOr<BulkReply> Split(const grpc::ByteBuffer& bytes, const BulkLimits& limits = {});

// Copies a payload, which is dense, into place.
void Unpack(PayloadReader& reader, PayloadRange range, const MatrixBytes& matrix);

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_BULK_PARTS_H_
