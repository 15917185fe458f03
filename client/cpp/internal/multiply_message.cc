#include "client/cpp/internal/multiply_message.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
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

// Equal for matrices that are the same bytes on the wire. How the elements lie matters only to
// those that are packed.
using PayloadKey =
    std::tuple<const std::byte*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

PayloadKey KeyOf(const MatrixBytes& matrix) {
  const int64_t extent = matrix.extent_bytes();
  if (!IsSparse(matrix)) return {matrix.data, extent, 0, 0, 0, 0, 0};
  return {matrix.data,
          extent,
          matrix.rows,
          matrix.row_bytes,
          matrix.matrices,
          matrix.row_stride_bytes,
          matrix.matrix_stride_bytes};
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

// Reads ranges of a segmented message, in ascending order: one walk over the segments in all.
class SegmentReader {
 public:
  explicit SegmentReader(absl::Span<const Segment> message) : message_(message) {}

  // Requires that the range is in the message and begins where the last one ended or behind it.
  void Read(PayloadRange range, std::byte* out) {
    uint64_t at = range.offset_bytes;
    const uint64_t end = at + range.size_bytes;
    while (at < end) {
      const Segment& segment = message_[segment_];
      const uint64_t segment_end = segment_start_ + segment.size_bytes;
      if (at >= segment_end) {
        segment_start_ = segment_end;
        ++segment_;
        continue;
      }
      const uint64_t step = std::min(end, segment_end) - at;
      std::memcpy(out, segment.data + (at - segment_start_), step);
      out += step;
      at += step;
    }
  }

 private:
  absl::Span<const Segment> message_;
  size_t segment_ = 0;
  uint64_t segment_start_ = 0;  // its offset in the message
};

void Unpack(SegmentReader& reader, PayloadRange range, const MatrixBytes& matrix) {
  if (matrix.extent_bytes() == matrix.dense_bytes()) {
    reader.Read(range, matrix.data);
    return;
  }
  range.size_bytes = matrix.row_bytes;
  for (int64_t q = 0; q < matrix.matrices; ++q) {
    std::byte* row = matrix.data + q * matrix.matrix_stride_bytes;
    for (int64_t i = 0; i < matrix.rows; ++i) {
      reader.Read(range, row + i * matrix.row_stride_bytes);
      range.offset_bytes += matrix.row_bytes;
    }
  }
}

// The payloads of a request, each once.
class PayloadTable {
 public:
  // Describes the operand, whose matrix must stay where it is.
  void Add(const CheckedProduct::Input& input, int64_t element_bytes, v1::Operand& operand) {
    const auto [found, added] = indices_.try_emplace(KeyOf(input), payloads_.size());
    if (added) payloads_.push_back(&input);
    Describe(input, found->second, element_bytes, operand);
  }

  // The whole message, which begins with `text`.
  absl::StatusOr<grpc::ByteBuffer> Encode(std::string text, uint64_t message_limit_bytes,
                                          BorrowedMemory& memory) const {
    uint64_t request_bytes = text.size();
    std::vector<std::string> headers;
    headers.reserve(payloads_.size());
    for (const CheckedProduct::Input* payload : payloads_) {
      headers.push_back(PayloadHeader(PayloadBytes(*payload)));
      request_bytes += headers.back().size() + PayloadBytes(*payload);
    }
    if (absl::Status size =
            CheckSize("request", "MESSAGE_TOO_LARGE", request_bytes, message_limit_bytes);
        !size.ok()) {
      return size;
    }
    std::vector<grpc::Slice> slices;
    slices.reserve(2 * payloads_.size());
    for (size_t i = 0; i < payloads_.size(); ++i) {
      text += headers[i];
      slices.emplace_back(text);
      text.clear();
      if (payloads_[i]->matrices == 0) continue;
      slices.push_back(IsSparse(*payloads_[i])
                           ? Pack(*payloads_[i])
                           : memory.Lend(payloads_[i]->data, payloads_[i]->extent_bytes()));
    }
    return grpc::ByteBuffer(slices.data(), slices.size());
  }

 private:
  std::vector<const CheckedProduct::Input*> payloads_;
  std::map<PayloadKey, uint32_t> indices_;
};

void Describe(const CheckedProduct& product, v1::Product& description, PayloadTable& payloads) {
  description.set_m(product.m);
  description.set_n(product.n);
  description.set_k(product.k);
  description.set_data_type(ToProto(product.element_type));
  description.set_precision(ToProto(product.precision));
  description.set_alpha(product.alpha);
  description.set_beta(product.beta);
  description.set_batch_count(product.batch_count);
  payloads.Add(product.a, product.element_bytes, *description.mutable_a());
  payloads.Add(product.b, product.element_bytes, *description.mutable_b());
  if (product.has_c) payloads.Add(product.c, product.element_bytes, *description.mutable_c());
}

// As the server does it, what a reply holds beside the results is not counted.
absl::Status CheckResultSize(uint64_t d_bytes, uint64_t message_limit_bytes) {
  return CheckSize("result", "RESULT_TOO_LARGE", d_bytes, message_limit_bytes);
}

// A reply, split.
struct Reply {
  std::vector<grpc::Slice> slices;
  std::vector<Segment> segments;
  BulkIndex index;
};

absl::StatusOr<Reply> Split(const grpc::ByteBuffer& bytes, const BulkLimits& limits) {
  Reply reply;
  if (!bytes.Valid() || !bytes.Dump(&reply.slices).ok()) {
    return BadReply("it is empty or compressed");
  }
  reply.segments.reserve(reply.slices.size());
  for (const grpc::Slice& slice : reply.slices) {
    reply.segments.push_back({slice.begin(), slice.size()});
  }
  absl::StatusOr<BulkIndex> index = IndexBulkMessage(reply.segments, limits);
  if (!index.ok()) return BadReply(std::string(index.status().message()));
  reply.index = *std::move(index);
  return reply;
}

// What a product's outcome takes in a reply's description, at most: a long error text with details.
constexpr size_t kOutcomeBytes = 16 << 10;

absl::Status ErrorOf(const v1::StatusDetails& error) {
  return ErrorWithDetails(static_cast<absl::StatusCode>(error.code()), error.message(),
                          error.SerializeAsString());
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedProduct& product, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory) {
  if (absl::Status size = CheckResultSize(product.d.dense_bytes(), message_limit_bytes);
      !size.ok()) {
    return size;
  }
  v1::MultiplyRequest request;
  request.set_request_id(product.request_id);
  PayloadTable payloads;
  Describe(product, *request.mutable_product(), payloads);
  return payloads.Encode(request.SerializeAsString(), message_limit_bytes, memory);
}

absl::StatusOr<grpc::ByteBuffer> Encode(const CheckedBatch& batch, uint64_t message_limit_bytes,
                                        BorrowedMemory& memory) {
  uint64_t d_bytes = 0;
  for (const CheckedProduct& product : batch.products) d_bytes += product.d.dense_bytes();
  if (absl::Status size = CheckResultSize(d_bytes, message_limit_bytes); !size.ok()) return size;
  v1::MultiplyBatchRequest request;
  request.set_request_id(batch.request_id);
  PayloadTable payloads;
  for (const CheckedProduct& product : batch.products) {
    Describe(product, *request.add_products(), payloads);
  }
  return payloads.Encode(request.SerializeAsString(), message_limit_bytes, memory);
}

absl::StatusOr<MultiplyReport> Decode(const grpc::ByteBuffer& bytes,
                                      const CheckedProduct& product) {
  const absl::StatusOr<Reply> reply = Split(bytes, BulkLimits());
  if (!reply.ok()) return reply.status();
  v1::MultiplyReply message;
  if (!message.ParseFromString(reply->index.description)) {
    return BadReply("its report cannot be parsed");
  }
  const std::vector<PayloadRange>& payloads = reply->index.payloads;
  const uint64_t d_bytes = product.d.dense_bytes();
  if (d_bytes > 0 || !payloads.empty()) {
    if (payloads.size() != 1 || payloads[0].size_bytes != d_bytes) {
      return BadReply(absl::StrCat(
          "it holds ", payloads.size(), " payloads",
          payloads.empty() ? std::string()
                           : absl::StrCat(", the first of ", payloads[0].size_bytes, " bytes"),
          ", instead of one of ", d_bytes, " bytes"));
    }
    SegmentReader reader(reply->segments);
    if (d_bytes > 0) Unpack(reader, payloads[0], product.d);
  }
  return FromProto(message.report());
}

absl::StatusOr<MultiplyBatchReport> Decode(const grpc::ByteBuffer& bytes,
                                           const CheckedBatch& batch) {
  const size_t products = batch.products.size();
  const absl::StatusOr<Reply> reply =
      Split(bytes, {.description_bytes = products * kOutcomeBytes, .payloads = products});
  if (!reply.ok()) return reply.status();
  v1::MultiplyBatchReply message;
  if (!message.ParseFromString(reply->index.description)) {
    return BadReply("its results cannot be parsed");
  }
  const std::vector<PayloadRange>& payloads = reply->index.payloads;
  if (message.results_size() != static_cast<int>(products) || payloads.size() != products) {
    return BadReply(absl::StrCat("it holds ", message.results_size(), " results and ",
                                 payloads.size(), " payloads, instead of ", products, " of each"));
  }
  for (size_t i = 0; i < products; ++i) {
    const bool failed = message.results(static_cast<int>(i)).has_error();
    if (failed && message.results(static_cast<int>(i)).error().code() == 0) {
      return BadReply(absl::StrCat("product ", i, " has an error without a code"));
    }
    const uint64_t d_bytes = failed ? 0 : batch.products[i].d.dense_bytes();
    if (payloads[i].size_bytes == d_bytes) continue;
    return BadReply(absl::StrCat("payload ", i, " has ", payloads[i].size_bytes,
                                 " bytes, instead of ", d_bytes));
  }
  MultiplyBatchReport report;
  report.products.reserve(products);
  SegmentReader reader(reply->segments);
  for (size_t i = 0; i < products; ++i) {
    const v1::MultiplyBatchReply::Result& result = message.results(static_cast<int>(i));
    if (result.has_error()) {
      report.products.emplace_back(ErrorOf(result.error()));
      continue;
    }
    if (payloads[i].size_bytes > 0) Unpack(reader, payloads[i], batch.products[i].d);
    report.products.emplace_back(FromProto(result.report()));
  }
  return report;
}

}  // namespace gemm::client
