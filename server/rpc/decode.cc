#include "server/rpc/decode.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr size_t kRequestIdLimit = 128;

absl::Status Invalid(const std::string& field, const std::string& message) {
  return ErrorWithReason(Reason::kInvalidRequest, absl::StrCat(field, ": ", message), field);
}

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// `shape` is what is stored. Values that make no sense are left for Validate to name.
MatrixLayout DecodeLayout(const v1::Operand& operand, MatrixShape shape) {
  MatrixLayout layout;
  layout.transposed = operand.transposed();
  layout.ld = operand.leading_dimension() != 0 ? operand.leading_dimension()
                                               : std::max<int64_t>(1, shape.columns);
  layout.batch_stride = operand.has_batch_stride() ? operand.batch_stride()
                                                   : SaturatingMultiply(shape.rows, layout.ld);
  layout.alignment_bytes = kOperandAlignment;
  return layout;
}

absl::StatusOr<DType> DecodeDataType(v1::DataType data_type) {
  switch (data_type) {
    case v1::DATA_TYPE_F32:
      return DType::kF32;
    case v1::DATA_TYPE_F64:
      return DType::kF64;
    case v1::DATA_TYPE_UNSPECIFIED:
      return Invalid("product.data_type", "must be set, for example to DATA_TYPE_F32");
    default:
      return Invalid("product.data_type", absl::StrCat("unknown value ", int{data_type}));
  }
}

bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// Ties each operand to the payload it names.
class PayloadBinder {
 public:
  PayloadBinder(const std::vector<PayloadRange>& payloads, DecodedMultiply& decoded)
      : payloads_(payloads), decoded_(decoded), places_(payloads.size()) {}

  // `needed` elements must be exactly what the payload holds; it is copied in only if `read`.
  absl::Status Bind(const char* name, const v1::Operand& operand, int64_t elements, bool read,
                    InputSpan& span) {
    const std::string field = absl::StrCat("product.", name, ".payload");
    if (operand.source_case() != v1::Operand::kPayload) {
      return Invalid(field, "must name an entry of payloads");
    }
    const uint32_t index = operand.payload();
    if (index >= payloads_.size()) {
      return Invalid(field, absl::StrCat("index ", index, " is out of range: the request has ",
                                         payloads_.size(), " payloads"));
    }
    const uint64_t needed_bytes = static_cast<uint64_t>(elements) * SizeOf(decoded_.problem.dtype);
    const uint64_t given_bytes = payloads_[index].size_bytes;
    if (given_bytes != needed_bytes) {
      return Invalid(
          absl::StrCat("payloads[", index, "]"),
          absl::StrCat("has ", given_bytes, " bytes, but operand ", name, " needs ", needed_bytes));
    }
    Place& place = places_[index];
    place.named = true;
    if (!read || needed_bytes == 0) return absl::OkStatus();
    if (!place.copied) {
      place.copied = true;
      place.offset_bytes = decoded_.input_bytes;
      decoded_.copies.push_back({payloads_[index], place.offset_bytes});
      decoded_.input_bytes += AlignedSize(needed_bytes);
    }
    span = {place.offset_bytes, needed_bytes};
    return absl::OkStatus();
  }

  absl::Status CheckAllNamed() const {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!places_[i].named) {
        return Invalid(absl::StrCat("payloads[", i, "]"), "no operand names it");
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Place {
    bool named = false;
    bool copied = false;
    size_t offset_bytes = 0;
  };

  const std::vector<PayloadRange>& payloads_;
  DecodedMultiply& decoded_;
  std::vector<Place> places_;
};

}  // namespace

absl::StatusOr<Problem> DecodeProduct(const v1::Product& product, bool operands_optional) {
  Problem problem;
  problem.m = product.m();
  problem.n = product.n();
  problem.k = product.k();
  problem.batch_count = product.has_batch_count() ? product.batch_count() : 1;
  absl::StatusOr<DType> dtype = DecodeDataType(product.data_type());
  if (!dtype.ok()) return dtype.status();
  problem.dtype = *dtype;
  if (product.precision() != v1::PRECISION_UNSPECIFIED &&
      product.precision() != v1::PRECISION_STRICT) {
    return Invalid("product.precision", absl::StrCat("unknown value ", int{product.precision()}));
  }
  problem.alpha = product.has_alpha() ? product.alpha() : 1.0;
  problem.beta = product.has_beta() ? product.beta() : 0.0;

  if (!operands_optional) {
    if (!product.has_a()) return Invalid("product.a", "is missing");
    if (!product.has_b()) return Invalid("product.b", "is missing");
    if (ReadsC(problem) && !product.has_c()) {
      return Invalid("product.c", "is missing, and beta is not 0");
    }
  }
  problem.a.transposed = product.a().transposed();
  problem.b.transposed = product.b().transposed();
  problem.a = DecodeLayout(product.a(), StoredA(problem));
  problem.b = DecodeLayout(product.b(), StoredB(problem));
  problem.c = DecodeLayout(product.c(), StoredC(problem));
  problem.d = DecodeLayout(v1::Operand(), StoredC(problem));
  if (std::optional<ProblemFault> fault = Validate(problem)) {
    return Invalid(absl::StrCat("product.", fault->field), fault->message);
  }
  return problem;
}

absl::StatusOr<DecodedMultiply> DecodeMultiply(absl::Span<const Segment> message,
                                               uint64_t reply_limit_bytes,
                                               std::string& request_id) {
  absl::StatusOr<BulkIndex> index = IndexBulkMessage(message, BulkLimits());
  if (!index.ok()) {
    return ErrorWithReason(Reason::kInvalidRequest, std::string(index.status().message()));
  }
  v1::MultiplyRequest request;
  if (!request.ParseFromString(index->description)) {
    return ErrorWithReason(Reason::kInvalidRequest, "request: not a valid gemm.v1.MultiplyRequest");
  }
  if (request.request_id().size() > kRequestIdLimit || !IsPrintable(request.request_id())) {
    return Invalid("request_id", absl::StrCat("must be at most ", kRequestIdLimit,
                                              " printable ASCII characters"));
  }
  request_id = request.request_id();
  if (!request.has_product()) return Invalid("product", "is missing");

  DecodedMultiply decoded;
  const v1::Product& product = request.product();
  absl::StatusOr<Problem> problem = DecodeProduct(product, /*operands_optional=*/false);
  if (!problem.ok()) return problem.status();
  decoded.problem = *problem;

  decoded.output_bytes =
      static_cast<uint64_t>(ExtentElements(StoredC(*problem), problem->d, problem->batch_count)) *
      SizeOf(problem->dtype);
  if (decoded.output_bytes > reply_limit_bytes) {
    return ErrorWithReason(
        Reason::kResultTooLarge,
        absl::StrCat("product: the result has ", decoded.output_bytes, " bytes, over the limit of ",
                     reply_limit_bytes, " for a reply"),
        "product");
  }

  PayloadBinder binder(index->payloads, decoded);
  const auto elements = [&](MatrixShape shape, const MatrixLayout& layout) {
    return ExtentElements(shape, layout, problem->batch_count);
  };
  if (absl::Status status = binder.Bind("a", product.a(), elements(StoredA(*problem), problem->a),
                                        ReadsAB(*problem), decoded.a);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = binder.Bind("b", product.b(), elements(StoredB(*problem), problem->b),
                                        ReadsAB(*problem), decoded.b);
      !status.ok()) {
    return status;
  }
  if (product.has_c()) {
    if (absl::Status status = binder.Bind("c", product.c(), elements(StoredC(*problem), problem->c),
                                          ReadsC(*problem), decoded.c);
        !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = binder.CheckAllNamed(); !status.ok()) return status;
  return decoded;
}

}  // namespace gemm
