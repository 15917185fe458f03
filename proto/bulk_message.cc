#include "proto/bulk_message.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/stream_copy.h"

namespace gemm {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

constexpr uint32_t kPayloadsTag = (kPayloadsField << 3) | kLengthDelimited;

// About what a core's cache holds: of a smaller payload, what is written last may still be there
// when it is read.
constexpr uint64_t kStreamedBytes = 1 << 20;

void AppendVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// Walks a segmented message. Every read is checked against the end.
class Cursor {
 public:
  explicit Cursor(absl::Span<const Segment> message) : message_(message) {
    for (const Segment& segment : message) total_bytes_ += segment.size_bytes;
    SkipEmpty();
  }

  uint64_t offset_bytes() const { return offset_bytes_; }
  uint64_t remaining_bytes() const { return total_bytes_ - offset_bytes_; }

  std::optional<uint64_t> ReadVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (remaining_bytes() == 0) return std::nullopt;
      const uint8_t byte = message_[segment_].data[position_];
      Advance(1);
      if (shift == 63 && byte > 1) return std::nullopt;  // beyond 64 bits
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  // Requires bytes <= remaining_bytes().
  void Advance(uint64_t bytes) {
    offset_bytes_ += bytes;
    while (bytes > 0) {
      const uint64_t step = std::min<uint64_t>(bytes, message_[segment_].size_bytes - position_);
      position_ += step;
      bytes -= step;
      SkipEmpty();
    }
  }

  // Requires bytes <= remaining_bytes().
  void Append(uint64_t bytes, std::string& out) {
    offset_bytes_ += bytes;
    while (bytes > 0) {
      const Segment& segment = message_[segment_];
      const uint64_t step = std::min<uint64_t>(bytes, segment.size_bytes - position_);
      out.append(reinterpret_cast<const char*>(segment.data) + position_, step);
      position_ += step;
      bytes -= step;
      SkipEmpty();
    }
  }

 private:
  void SkipEmpty() {
    while (segment_ < message_.size() && position_ == message_[segment_].size_bytes) {
      ++segment_;
      position_ = 0;
    }
  }

  absl::Span<const Segment> message_;
  uint64_t total_bytes_ = 0;
  uint64_t offset_bytes_ = 0;
  size_t segment_ = 0;
  size_t position_ = 0;  // within the segment
};

absl::Status Malformed(uint64_t offset_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("request: not a valid protobuf message (at byte ", offset_bytes, ")"));
}

}  // namespace

absl::StatusOr<BulkIndex> IndexBulkMessage(absl::Span<const Segment> message,
                                           const BulkLimits& limits) {
  BulkIndex index;
  Cursor cursor(message);
  while (cursor.remaining_bytes() > 0) {
    const uint64_t start = cursor.offset_bytes();
    const std::optional<uint64_t> tag = cursor.ReadVarint();
    if (!tag || *tag > UINT32_MAX || (*tag >> 3) == 0) return Malformed(start);

    uint64_t size_bytes = 0;  // of the field's value, once the tag (and the length) are read
    switch (*tag & 7) {
      case kVarint: {
        // Copied as it was written: protobuf checks it again.
        const std::optional<uint64_t> value = cursor.ReadVarint();
        if (!value) return Malformed(start);
        AppendVarint(*tag, index.description);
        AppendVarint(*value, index.description);
        break;
      }
      case kFixed64:
      case kFixed32:
        size_bytes = (*tag & 7) == kFixed64 ? 8 : 4;
        if (size_bytes > cursor.remaining_bytes()) return Malformed(start);
        AppendVarint(*tag, index.description);
        cursor.Append(size_bytes, index.description);
        break;
      case kLengthDelimited: {
        const std::optional<uint64_t> length = cursor.ReadVarint();
        if (!length || *length > cursor.remaining_bytes()) return Malformed(start);
        if (*tag == kPayloadsTag) {
          if (index.payloads.size() == limits.payloads) {
            return absl::InvalidArgumentError(
                absl::StrCat("payloads: more than ", limits.payloads, " entries"));
          }
          index.payloads.push_back({cursor.offset_bytes(), *length});
          cursor.Advance(*length);
          break;
        }
        if (index.description.size() + *length > limits.description_bytes) {
          return absl::InvalidArgumentError(
              absl::StrCat("request: its fields other than payloads are over the limit of ",
                           limits.description_bytes, " bytes"));
        }
        AppendVarint(*tag, index.description);
        AppendVarint(*length, index.description);
        cursor.Append(*length, index.description);
        break;
      }
      default:  // groups and unknown wire types
        return Malformed(start);
    }
    if (index.description.size() > limits.description_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("request: its fields other than payloads are over the limit of ",
                       limits.description_bytes, " bytes"));
    }
  }
  return index;
}

void PayloadReader::Copy(PayloadRange range, void* dst) {
  if (range.offset_bytes < segment_start_) {
    segment_ = 0;
    segment_start_ = 0;
  }
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    if (range.size_bytes < kStreamedBytes) {
      std::memcpy(to, from, bytes);
    } else {
      StreamCopy(to, from, bytes);
    }
  };
  auto* out = static_cast<uint8_t*>(dst);
  uint64_t left = range.size_bytes;
  while (left > 0 && segment_ < message_.size()) {
    const Segment& segment = message_[segment_];
    const uint64_t end = segment_start_ + segment.size_bytes;
    const uint64_t at = range.offset_bytes + range.size_bytes - left;
    if (at < end) {
      const uint64_t step = std::min(left, end - at);
      copy(out, segment.data + (at - segment_start_), step);
      out += step;
      left -= step;
      if (left == 0) return;  // the next payload may begin in the same segment
    }
    segment_start_ = end;
    ++segment_;
  }
}

std::string PayloadHeader(uint64_t size_bytes) {
  std::string header;
  AppendVarint(kPayloadsTag, header);
  AppendVarint(size_bytes, header);
  return header;
}

}  // namespace gemm
