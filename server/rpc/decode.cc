#include "server/rpc/decode.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr size_t kRequestIdLimit = 128;

// A Product with every field at its longest takes 170 bytes.
constexpr BulkLimits kBatchLimits = {.description_bytes = 256 * kMaxBatchProducts,
                                     .payloads = 3 * kMaxBatchProducts};

// Where a product stands in its request; makes text only when there is something to complain of.
class ProductPath {
 public:
  ProductPath() = default;  // "product"
  explicit ProductPath(size_t index) : index_(index) {}

  std::string Text() const {
    return index_ ? absl::StrCat("products[", *index_, "]") : std::string("product");
  }
  std::string Field(const std::string& name) const { return absl::StrCat(Text(), ".", name); }
  // How an error of a payload calls an operand.
  std::string Operand(const char* name) const { return index_ ? Field(name) : std::string(name); }

 private:
  std::optional<size_t> index_;
};

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

absl::StatusOr<DType> DecodeDataType(v1::DataType data_type, const ProductPath& path) {
  switch (data_type) {
    case v1::DATA_TYPE_F32:
      return DType::kF32;
    case v1::DATA_TYPE_F64:
      return DType::kF64;
    case v1::DATA_TYPE_UNSPECIFIED:
      return Invalid(path.Field("data_type"), "must be set, for example to DATA_TYPE_F32");
    default:
      return Invalid(path.Field("data_type"), absl::StrCat("unknown value ", int{data_type}));
  }
}

bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

absl::StatusOr<Problem> DecodeProblem(const v1::Product& product, const ProductPath& path,
                                      bool operands_optional) {
  Problem problem;
  problem.m = product.m();
  problem.n = product.n();
  problem.k = product.k();
  problem.batch_count = product.has_batch_count() ? product.batch_count() : 1;
  absl::StatusOr<DType> dtype = DecodeDataType(product.data_type(), path);
  if (!dtype.ok()) return dtype.status();
  problem.dtype = *dtype;
  if (product.precision() != v1::PRECISION_UNSPECIFIED &&
      product.precision() != v1::PRECISION_STRICT) {
    return Invalid(path.Field("precision"),
                   absl::StrCat("unknown value ", int{product.precision()}));
  }
  problem.alpha = product.has_alpha() ? product.alpha() : 1.0;
  problem.beta = product.has_beta() ? product.beta() : 0.0;

  if (!operands_optional) {
    if (!product.has_a()) return Invalid(path.Field("a"), "is missing");
    if (!product.has_b()) return Invalid(path.Field("b"), "is missing");
    if (ReadsC(problem) && !product.has_c()) {
      return Invalid(path.Field("c"), "is missing, and beta is not 0");
    }
  }
  problem.a.transposed = product.a().transposed();
  problem.b.transposed = product.b().transposed();
  problem.a = DecodeLayout(product.a(), StoredA(problem));
  problem.b = DecodeLayout(product.b(), StoredB(problem));
  problem.c = DecodeLayout(product.c(), StoredC(problem));
  problem.d = DecodeLayout(v1::Operand(), StoredC(problem));
  if (std::optional<ProblemFault> fault = Validate(problem)) {
    return Invalid(path.Field(fault->field), fault->message);
  }
  return problem;
}

// Decodes the products of one message, and ties their operands to the payloads that they name.
class ProductDecoder {
 public:
  ProductDecoder(const std::vector<PayloadRange>& payloads, size_t products,
                 uint64_t reply_limit_bytes)
      : payloads_(payloads), reply_limit_bytes_(reply_limit_bytes), places_(payloads.size()) {
    decoded_.products.reserve(products);
  }

  // The next product, in the order of the request.
  const JobProduct& Add(const v1::Product& product, const ProductPath& path) {
    JobProduct& decoded = decoded_.products.emplace_back();
    decoded.status = Decode(product, path, decoded);
    // Even one that was refused names its payloads.
    for (const v1::Operand* operand : {&product.a(), &product.b(), &product.c()}) {
      if (operand->source_case() == v1::Operand::kPayload && operand->payload() < places_.size()) {
        places_[operand->payload()].named = true;
      }
    }
    return decoded;
  }

  absl::Status CheckAllNamed() const {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!places_[i].named) {
        return Invalid(absl::StrCat("payloads[", i, "]"), "no operand names it");
      }
    }
    return absl::OkStatus();
  }

  // What has been added.
  DecodedProducts Finish() && {
    std::sort(decoded_.copies.begin(), decoded_.copies.end(),
              [](const PayloadCopy& a, const PayloadCopy& b) {
                return a.source.offset_bytes < b.source.offset_bytes;
              });
    return std::move(decoded_);
  }

 private:
  // One payload.
  struct Place {
    bool named = false;
    bool copied = false;
    size_t offset_bytes = 0;
  };

  // One operand of a product.
  struct Use {
    const char* name;
    const v1::Operand& operand;
    int64_t elements;  // exactly what the payload must hold
    bool read;         // else it need not be copied in
    InputSpan& span;
  };

  absl::Status Decode(const v1::Product& product, const ProductPath& path, JobProduct& decoded) {
    absl::StatusOr<Problem> problem = DecodeProblem(product, path, /*operands_optional=*/false);
    if (!problem.ok()) return problem.status();
    const auto elements = [&](MatrixShape shape, const MatrixLayout& layout) {
      return ExtentElements(shape, layout, problem->batch_count);
    };
    const uint64_t output_bytes =
        static_cast<uint64_t>(elements(StoredC(*problem), problem->d)) * SizeOf(problem->dtype);
    if (output_bytes > reply_limit_bytes_) {
      return ErrorWithReason(
          Reason::kResultTooLarge,
          absl::StrCat(path.Text(), ": the result has ", output_bytes, " bytes, over the limit of ",
                       reply_limit_bytes_, " for a reply"),
          path.Text());
    }

    const Use uses[] = {
        {"a", product.a(), elements(StoredA(*problem), problem->a), ReadsAB(*problem), decoded.a},
        {"b", product.b(), elements(StoredB(*problem), problem->b), ReadsAB(*problem), decoded.b},
        {"c", product.c(), elements(StoredC(*problem), problem->c), ReadsC(*problem), decoded.c}};
    const absl::Span<const Use> given(uses, product.has_c() ? 3 : 2);
    for (const Use& use : given) {
      if (absl::Status status = Check(use, *problem, path); !status.ok()) return status;
    }
    for (const Use& use : given) Bind(use);
    decoded.problem = *problem;
    decoded.output_offset_bytes = decoded_.output_bytes;
    decoded.output_bytes = output_bytes;
    decoded_.output_bytes += AlignedSize(output_bytes);
    return absl::OkStatus();
  }

  absl::Status Check(const Use& use, const Problem& problem, const ProductPath& path) const {
    if (use.operand.source_case() != v1::Operand::kPayload) {
      return Invalid(path.Field(absl::StrCat(use.name, ".payload")),
                     "must name an entry of payloads");
    }
    const uint32_t index = use.operand.payload();
    if (index >= payloads_.size()) {
      return Invalid(path.Field(absl::StrCat(use.name, ".payload")),
                     absl::StrCat("index ", index, " is out of range: the request has ",
                                  payloads_.size(), " payloads"));
    }
    const uint64_t needed_bytes = static_cast<uint64_t>(use.elements) * SizeOf(problem.dtype);
    const uint64_t given_bytes = payloads_[index].size_bytes;
    if (given_bytes != needed_bytes) {
      return Invalid(absl::StrCat("payloads[", index, "]"),
                     absl::StrCat("has ", given_bytes, " bytes, but operand ",
                                  path.Operand(use.name), " needs ", needed_bytes));
    }
    return absl::OkStatus();
  }

  // Requires a use that has been checked.
  void Bind(const Use& use) {
    const PayloadRange& payload = payloads_[use.operand.payload()];
    if (!use.read || payload.size_bytes == 0) return;
    Place& place = places_[use.operand.payload()];
    if (!place.copied) {
      place.copied = true;
      place.offset_bytes = decoded_.input_bytes;
      decoded_.copies.push_back({payload, place.offset_bytes});
      decoded_.input_bytes += AlignedSize(payload.size_bytes);
    }
    use.span = {place.offset_bytes, payload.size_bytes};
  }

  const std::vector<PayloadRange>& payloads_;
  const uint64_t reply_limit_bytes_;
  DecodedProducts decoded_;
  std::vector<Place> places_;
};

absl::Status ParseDescription(const std::string& description,
                              google::protobuf::MessageLite& request) {
  if (request.ParseFromString(description)) return absl::OkStatus();
  return ErrorWithReason(Reason::kInvalidRequest,
                         absl::StrCat("request: not a valid ", request.GetTypeName()));
}

absl::StatusOr<BulkIndex> Index(absl::Span<const Segment> message, const BulkLimits& limits) {
  absl::StatusOr<BulkIndex> index = IndexBulkMessage(message, limits);
  if (index.ok()) return index;
  return ErrorWithReason(Reason::kInvalidRequest, std::string(index.status().message()));
}

absl::Status TakeRequestId(const std::string& given, std::string& request_id) {
  if (given.size() > kRequestIdLimit || !IsPrintable(given)) {
    return Invalid("request_id", absl::StrCat("must be at most ", kRequestIdLimit,
                                              " printable ASCII characters"));
  }
  request_id = given;
  return absl::OkStatus();
}

// Before anything is made of them: a product of 2 bytes becomes one of hundreds.
size_t CountProducts(const std::string& description) {
  using google::protobuf::internal::WireFormatLite;
  constexpr uint32_t kTag = WireFormatLite::MakeTag(v1::MultiplyBatchRequest::kProductsFieldNumber,
                                                    WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(description.data()),
                                               static_cast<int>(description.size()));
  size_t count = 0;
  while (const uint32_t tag = input.ReadTag()) {
    count += tag == kTag;
    if (!WireFormatLite::SkipField(&input, tag)) break;
  }
  return count;
}

}  // namespace

absl::StatusOr<Problem> DecodeProduct(const v1::Product& product, bool operands_optional) {
  return DecodeProblem(product, ProductPath(), operands_optional);
}

absl::StatusOr<DecodedProducts> DecodeMultiply(absl::Span<const Segment> message,
                                               uint64_t reply_limit_bytes,
                                               std::string& request_id) {
  absl::StatusOr<BulkIndex> index = Index(message, BulkLimits());
  if (!index.ok()) return index.status();
  v1::MultiplyRequest request;
  absl::Status status = ParseDescription(index->description, request);
  if (!status.ok()) return status;
  status = TakeRequestId(request.request_id(), request_id);
  if (!status.ok()) return status;
  if (!request.has_product()) return Invalid("product", "is missing");

  ProductDecoder decoder(index->payloads, 1, reply_limit_bytes);
  status = decoder.Add(request.product(), ProductPath()).status;
  if (!status.ok()) return status;
  status = decoder.CheckAllNamed();
  if (!status.ok()) return status;
  return std::move(decoder).Finish();
}

absl::StatusOr<DecodedProducts> DecodeMultiplyBatch(absl::Span<const Segment> message,
                                                    uint64_t reply_limit_bytes,
                                                    std::string& request_id) {
  absl::StatusOr<BulkIndex> index = Index(message, kBatchLimits);
  if (!index.ok()) return index.status();
  if (CountProducts(index->description) > kMaxBatchProducts) {
    return Invalid("products", absl::StrCat("has more than ", kMaxBatchProducts, " entries"));
  }
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<v1::MultiplyBatchRequest>(&arena);
  absl::Status status = ParseDescription(index->description, request);
  if (!status.ok()) return status;
  status = TakeRequestId(request.request_id(), request_id);
  if (!status.ok()) return status;
  if (request.products().empty()) return Invalid("products", "must have at least one entry");

  ProductDecoder decoder(index->payloads, request.products_size(), reply_limit_bytes);
  uint64_t result_bytes = 0;
  for (int i = 0; i < request.products_size(); ++i) {
    result_bytes += decoder.Add(request.products(i), ProductPath(i)).output_bytes;
  }
  status = decoder.CheckAllNamed();
  if (!status.ok()) return status;
  if (result_bytes > reply_limit_bytes) {
    return ErrorWithReason(
        Reason::kResultTooLarge,
        absl::StrCat("products: their results have ", result_bytes, " bytes, over the limit of ",
                     reply_limit_bytes, " for a reply"),
        "products");
  }
  return std::move(decoder).Finish();
}

}  // namespace gemm
