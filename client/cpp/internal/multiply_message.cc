#include "client/cpp/internal/multiply_message.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/conversions.h"
#include "client/cpp/internal/error.h"
#include "gemm/v1/gemm.pb.h"
#include "proto/bulk_message.h"

namespace gemm::client {
namespace {

// Sending padding costs wire time, packing costs a copy; a core copies several times as fast as the
// quickest wire carries, so at twice the bytes packing has won.
bool IsSparse(const MatrixBytes& matrix) {
  return matrix.extent_bytes() / 2 > matrix.dense_bytes();
}

bool SameBytes(const MatrixBytes& x, const MatrixBytes& y) {
  if (x.data != y.data || x.extent_bytes() != y.extent_bytes()) return false;
  if (!IsSparse(x) && !IsSparse(y)) return true;
  return x.rows == y.rows && x.row_bytes == y.row_bytes && x.matrices == y.matrices &&
         x.row_stride_bytes == y.row_stride_bytes && x.matrix_stride_bytes == y.matrix_stride_bytes;
}

uint64_t PayloadBytes(const MatrixBytes& matrix) {
  return IsSparse(matrix) ? matrix.dense_bytes() : matrix.extent_bytes();
}

// A dense copy, owned by the slice.
grpc::Slice Pack(const MatrixBytes& matrix) {
  auto packed = std::make_unique_for_overwrite<std::byte[]>(matrix.dense_bytes());
  std::byte* out = packed.get();
  for (int64_t q = 0; q < matrix.matrices; ++q) {
    const std::byte* row = matrix.data + q * matrix.matrix_stride_bytes;
    for (int64_t i = 0; i < matrix.rows; ++i) {
      std::memcpy(out, row + i * matrix.row_stride_bytes, matrix.row_bytes);
      out += matrix.row_bytes;
    }
  }
  std::byte* const data = packed.release();
  return grpc::Slice(
      data, matrix.dense_bytes(), [](void* bytes) { delete[] static_cast<std::byte*>(bytes); },
      data);
}

void Describe(const CheckedProduct::Input& input, uint32_t payload, int64_t element_bytes,
              v1::Operand& operand) {
  operand.set_payload(payload);
  operand.set_transposed(input.transposed);
  if (input.shared) operand.set_batch_stride(0);
  if (IsSparse(input) || input.matrices == 0) return;
  if (input.row_stride_bytes != input.row_bytes) {
    operand.set_leading_dimension(input.row_stride_bytes / element_bytes);
  }
  if (input.matrices > 1 && input.matrix_stride_bytes != input.rows * input.row_stride_bytes) {
    operand.set_batch_stride(input.matrix_stride_bytes / element_bytes);
  }
}

absl::Status CheckSize(const char* what, const char* reason, uint64_t bytes, uint64_t limit_bytes) {
  if (bytes <= limit_bytes) return absl::OkStatus();
  return ErrorWithReason(absl::StatusCode::kResourceExhausted, reason,
                         absl::StrCat("the ", what, " would be ", bytes,
                                      " bytes, over the message limit of ", limit_bytes));
}

absl::Status BadReply(const std::string& fault) {
  return absl::InternalError(absl::StrCat("the server's reply cannot be used: ", fault));
}

// Reads a segmented message front to back.
class SegmentReader {
 public:
  SegmentReader(absl::Span<const Segment> message, uint64_t offset_bytes) : message_(message) {
    while (segment_ < message_.size() && offset_bytes >= message_[segment_].size_bytes) {
      offset_bytes -= message_[segment_++].size_bytes;
    }
    position_ = offset_bytes;
  }

  // Requires that many bytes to be left.
  void Read(std::byte* out, uint64_t bytes) {
    while (bytes > 0) {
      const Segment& segment = message_[segment_];
      const uint64_t step = std::min<uint64_t>(bytes, segment.size_bytes - position_);
      std::memcpy(out, segment.data + position_, step);
      out += step;
      bytes -= step;
      position_ += step;
      if (position_ == segment.size_bytes) {
        ++segment_;
        position_ = 0;
      }
    }
  }

 private:
  absl::Span<const Segment> message_;
  size_t segment_ = 0;
  uint64_t position_ = 0;  // within the segment
};

void Unpack(absl::Span<const Segment> message, PayloadRange range, const MatrixBytes& matrix) {
  if (matrix.extent_bytes() == matrix.dense_bytes()) {
    CopyPayload(message, range, matrix.data);
    return;
  }
  SegmentReader reader(message, range.offset_bytes);
  for (int64_t q = 0; q < matrix.matrices; ++q) {
    std::byte* row = matrix.data + q * matrix.matrix_stride_bytes;
    for (int64_t i = 0; i < matrix.rows; ++i) {
      reader.Read(row + i * matrix.row_stride_bytes, matrix.row_bytes);
    }
  }
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeMultiply(const CheckedProduct& product,
                                                uint64_t message_limit_bytes,
                                                BorrowedMemory& memory) {
  v1::MultiplyRequest request;
  request.set_request_id(product.request_id);
  v1::Product& description = *request.mutable_product();
  description.set_m(product.m);
  description.set_n(product.n);
  description.set_k(product.k);
  description.set_data_type(ToProto(product.element_type));
  description.set_precision(ToProto(product.precision));
  description.set_alpha(product.alpha);
  description.set_beta(product.beta);
  description.set_batch_count(product.batch_count);

  std::vector<const CheckedProduct::Input*> payloads;
  const auto add = [&](const CheckedProduct::Input& input, v1::Operand& operand) {
    const auto same = std::find_if(payloads.begin(), payloads.end(),
                                   [&](const auto* sent) { return SameBytes(*sent, input); });
    Describe(input, static_cast<uint32_t>(same - payloads.begin()), product.element_bytes, operand);
    if (same == payloads.end()) payloads.push_back(&input);
  };
  add(product.a, *description.mutable_a());
  add(product.b, *description.mutable_b());
  if (product.has_c) add(product.c, *description.mutable_c());

  std::string text = request.SerializeAsString();
  uint64_t request_bytes = text.size();
  std::vector<std::string> headers;
  for (const CheckedProduct::Input* payload : payloads) {
    headers.push_back(PayloadHeader(PayloadBytes(*payload)));
    request_bytes += headers.back().size() + PayloadBytes(*payload);
  }
  absl::Status size = CheckSize("request", "MESSAGE_TOO_LARGE", request_bytes, message_limit_bytes);
  // As the server does it, what a reply holds beside D is not counted.
  size.Update(
      CheckSize("result", "RESULT_TOO_LARGE", product.d.dense_bytes(), message_limit_bytes));
  if (!size.ok()) return size;

  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < payloads.size(); ++i) {
    text += headers[i];
    slices.emplace_back(text);
    text.clear();
    if (payloads[i]->matrices == 0) continue;
    slices.push_back(IsSparse(*payloads[i])
                         ? Pack(*payloads[i])
                         : memory.Lend(payloads[i]->data, payloads[i]->extent_bytes()));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<MultiplyReport> DecodeMultiply(const grpc::ByteBuffer& reply,
                                              const CheckedProduct& product) {
  std::vector<grpc::Slice> slices;
  if (!reply.Valid() || !reply.Dump(&slices).ok()) return BadReply("it is empty or compressed");
  std::vector<Segment> segments;
  segments.reserve(slices.size());
  for (const grpc::Slice& slice : slices) segments.push_back({slice.begin(), slice.size()});

  const absl::StatusOr<BulkIndex> index = IndexBulkMessage(segments, BulkLimits());
  if (!index.ok()) return BadReply(std::string(index.status().message()));
  v1::MultiplyReply message;
  if (!message.ParseFromString(index->description)) return BadReply("its report cannot be parsed");

  const uint64_t d_bytes = product.d.dense_bytes();
  if (d_bytes > 0 || !index->payloads.empty()) {
    if (index->payloads.size() != 1 || index->payloads[0].size_bytes != d_bytes) {
      return BadReply(absl::StrCat(
          "it holds ", index->payloads.size(), " payloads",
          index->payloads.empty()
              ? std::string()
              : absl::StrCat(", the first of ", index->payloads[0].size_bytes, " bytes"),
          ", instead of one of ", d_bytes, " bytes"));
    }
    if (d_bytes > 0) Unpack(segments, index->payloads[0], product.d);
  }
  return FromProto(message.report());
}

}  // namespace gemm::client
