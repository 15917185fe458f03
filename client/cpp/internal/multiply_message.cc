#include "client/cpp/internal/multiply_message.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/bulk_parts.h"
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

void Describe(const CheckedProduct::Input& input, int64_t element_bytes, v1::Operand& operand) {
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

// The payloads of a request, each once.
class PayloadTable {
 public:
  // Describes the operand, whose matrix must stay where it is.
  void Add(const CheckedProduct::Input& input, int64_t element_bytes, v1::Operand& operand) {
    if (!input.matrix.name.empty()) {
      v1::MatrixRows& rows = *operand.mutable_matrix();
      rows.set_name(input.matrix.name);
      rows.set_row_begin(input.matrix.row_begin);
      rows.set_row_count(input.matrix.row_count);
    } else {
      const auto [found, added] = indices_.try_emplace(KeyOf(input), payloads_.size());
      if (added) payloads_.push_back(&input);
      operand.set_payload(found->second);
    }
    Describe(input, element_bytes, operand);
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
    if (payloads_.empty()) {  // all operands are on the server
      const grpc::Slice slice(text);
      return grpc::ByteBuffer(&slice, 1);
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
  if (product.result) *description.mutable_result() = ToProto(*product.result);
}

// As the server does it, what a reply holds beside the results is not counted.
absl::Status CheckResultSize(uint64_t d_bytes, uint64_t message_limit_bytes) {
  return CheckSize("result", "RESULT_TOO_LARGE", d_bytes, message_limit_bytes);
}

// What a product's outcome takes in a reply's description, at most: a long error text with details.
constexpr size_t kOutcomeBytes = 16 << 10;

absl::Status NoResultMatrix() { return BadReply("it does not say which matrix the result became"); }

// Of a product that succeeded; `Outcome` is MultiplyReply or one of a batch's results.
template <typename Outcome>
MultiplyReport ReportOf(const Outcome& outcome) {
  MultiplyReport report = FromProto(outcome.report());
  if (outcome.has_result()) report.result = FromProto(outcome.result());
  return report;
}

absl::Status ErrorOf(const v1::StatusDetails& error) {
  return ErrorWithDetails(static_cast<absl::StatusCode>(error.code()), error.message(),
                          error.SerializeAsString());
}

}  // namespace

uint64_t PayloadBytes(const MatrixBytes& matrix) {
  return IsSparse(matrix) ? matrix.dense_bytes() : matrix.extent_bytes();
}

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
  const absl::StatusOr<BulkReply> reply = Split(bytes);
  if (!reply.ok()) return reply.status();
  v1::MultiplyReply message;
  if (!message.ParseFromString(reply->index.description)) {
    return BadReply("its report cannot be parsed");
  }
  if (product.result && !message.has_result()) return NoResultMatrix();
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
    PayloadReader reader(reply->segments);
    if (d_bytes > 0) Unpack(reader, payloads[0], product.d);
  }
  return ReportOf(message);
}

absl::StatusOr<MultiplyBatchReport> Decode(const grpc::ByteBuffer& bytes,
                                           const CheckedBatch& batch) {
  const size_t products = batch.products.size();
  const absl::StatusOr<BulkReply> reply =
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
    if (!failed && batch.products[i].result && !message.results(static_cast<int>(i)).has_result()) {
      return NoResultMatrix();
    }
    const uint64_t d_bytes = failed ? 0 : batch.products[i].d.dense_bytes();
    if (payloads[i].size_bytes == d_bytes) continue;
    return BadReply(absl::StrCat("payload ", i, " has ", payloads[i].size_bytes,
                                 " bytes, instead of ", d_bytes));
  }
  MultiplyBatchReport report;
  report.products.reserve(products);
  PayloadReader reader(reply->segments);
  for (size_t i = 0; i < products; ++i) {
    const v1::MultiplyBatchReply::Result& result = message.results(static_cast<int>(i));
    if (result.has_error()) {
      report.products.emplace_back(ErrorOf(result.error()));
      continue;
    }
    if (payloads[i].size_bytes > 0) Unpack(reader, payloads[i], batch.products[i].d);
    report.products.emplace_back(ReportOf(result));
  }
  return report;
}

}  // namespace gemm::client
