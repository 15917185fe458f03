// Reading and writing messages whose field 1000 is bulk data (see gemm.proto) without passing the
// bulk through protobuf: the description is parsed by protobuf as always, the payloads stay where
// they are until one copy takes them to where they are needed.
//
// Knows the protobuf wire format's top level and nothing of gRPC; used by server and client alike.

#ifndef GEMMD_PROTO_BULK_MESSAGE_H_
#define GEMMD_PROTO_BULK_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gemm {

inline constexpr uint32_t kPayloadsField = 1000;

// One contiguous part of a message, as the transport delivered it. Not owned.
struct Segment {
  const uint8_t* data = nullptr;
  size_t size_bytes = 0;
};

// Where one payload lies in the whole message.
struct PayloadRange {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

struct BulkIndex {
  std::string description;  // every field but the payloads, in wire format
  std::vector<PayloadRange> payloads;
};

struct BulkLimits {
  size_t description_bytes = 64 << 10;
  size_t payloads = 4096;
};

// Splits a message. INVALID_ARGUMENT when it is not well-formed at its top level or breaks a limit.
// Reads only tags and lengths; the payloads' bytes are not touched.
absl::StatusOr<BulkIndex> IndexBulkMessage(absl::Span<const Segment> message,
                                           const BulkLimits& limits);

// Copies payloads out of a message, which must outlive it. Payloads in ascending order cost one
// walk over the segments in all.
class PayloadReader {
 public:
  explicit PayloadReader(absl::Span<const Segment> message) : message_(message) {}

  // A range that IndexBulkMessage returned for this message. dst holds range.size_bytes.
  void Copy(PayloadRange range, void* dst);

 private:
  absl::Span<const Segment> message_;
  size_t segment_ = 0;          // where the last payload ended
  uint64_t segment_start_ = 0;  // its offset in the message
};

// The bytes that go between the description (or the payload before) and a payload's own bytes.
std::string PayloadHeader(uint64_t size_bytes);

}  // namespace gemm

#endif  // GEMMD_PROTO_BULK_MESSAGE_H_
