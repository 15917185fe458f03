#include "server/rpc/decode.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/limits.h"
#include "server/memory/matrix_store.h"
#include "server/reason.h"
#include "server/rpc/matrix_messages.h"

namespace gemm {
namespace {

// A Product with every field at its longest, four names of matrices among them, takes 760 bytes.
constexpr BulkLimits kBatchLimits = {.description_bytes = 1024 * kMaxBatchProducts,
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

// The matrix of each operand that stays on the server, else null.
struct OperandMatrices {
  std::shared_ptr<const DeviceMatrix> a, b, c;
};

// `shape` is what is stored, `matrix` where, unless it is inline. Values that make no sense are
// left for Validate to name.
MatrixLayout DecodeLayout(const v1::Operand& operand, MatrixShape shape,
                          const DeviceMatrix* matrix) {
  MatrixLayout layout;
  layout.transposed = operand.transposed();
  if (matrix != nullptr) {
    layout.ld = matrix->leading_dimension();
  } else {
    layout.ld = operand.leading_dimension() != 0 ? operand.leading_dimension()
                                                 : std::max<int64_t>(1, shape.columns);
  }
  layout.batch_stride = operand.has_batch_stride() ? operand.batch_stride()
                                                   : SaturatingMultiply(shape.rows, layout.ld);
  layout.alignment_bytes = kOperandAlignment;
  return layout;
}

bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// What a matrix holds must be what the product takes.
absl::Status CheckFits(const DeviceMatrix& matrix, MatrixShape stored, DType dtype,
                       const std::string& field) {
  const MatrixSpec& spec = matrix.spec();
  if (spec.dtype != dtype) {
    return Invalid(field, absl::StrCat("holds ", std::string(NameOf(spec.dtype)),
                                       ", but the product is of ", std::string(NameOf(dtype))));
  }
  if (stored.columns >= 0 && spec.columns != stored.columns) {
    return Invalid(field, absl::StrCat("has ", spec.columns, " columns, but the operand needs ",
                                       stored.columns));
  }
  return absl::OkStatus();
}

absl::StatusOr<Problem> DecodeProblem(const v1::Product& product, const ProductPath& path,
                                      bool operands_optional, const OperandMatrices& matrices) {
  Problem problem;
  problem.m = product.m();
  problem.n = product.n();
  problem.k = product.k();
  problem.batch_count = product.has_batch_count() ? product.batch_count() : 1;
  absl::StatusOr<DType> dtype = DecodeDataType(product.data_type(), path.Field("data_type"));
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
  for (const auto& [name, matrix, stored] : {std::tuple("a", matrices.a.get(), StoredA(problem)),
                                             std::tuple("b", matrices.b.get(), StoredB(problem)),
                                             std::tuple("c", matrices.c.get(), StoredC(problem))}) {
    if (matrix == nullptr) continue;
    absl::Status status =
        CheckFits(*matrix, stored, problem.dtype, path.Field(absl::StrCat(name, ".matrix")));
    if (!status.ok()) return status;
  }
  problem.a = DecodeLayout(product.a(), StoredA(problem), matrices.a.get());
  problem.b = DecodeLayout(product.b(), StoredB(problem), matrices.b.get());
  problem.c = DecodeLayout(product.c(), StoredC(problem), matrices.c.get());
  problem.d = DecodeLayout(v1::Operand(), StoredC(problem), nullptr);
  if (std::optional<ProblemFault> fault = Validate(problem)) {
    return Invalid(path.Field(fault->field), fault->message);
  }
  return problem;
}

// Decodes the products of one message, and ties their operands to the payloads and the matrices
// that they name.
class ProductDecoder {
 public:
  ProductDecoder(const std::vector<PayloadRange>& payloads, size_t products,
                 const DecodeContext& context)
      : payloads_(payloads), context_(context), places_(payloads.size()) {
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
    MatrixShape stored;
    MatrixLayout& layout;
    bool read;  // else it need not be copied in
    std::shared_ptr<const DeviceMatrix> matrix;
    InputSpan& span;
  };

  absl::Status Decode(const v1::Product& product, const ProductPath& path, JobProduct& decoded) {
    OperandMatrices matrices;
    for (const auto& [name, operand, matrix] :
         {std::tuple("a", &product.a(), &matrices.a), std::tuple("b", &product.b(), &matrices.b),
          std::tuple("c", &product.c(), &matrices.c)}) {
      if (operand->source_case() != v1::Operand::kMatrix) continue;
      if (absl::Status status = Find(name, *operand, path, *matrix); !status.ok()) return status;
    }
    absl::StatusOr<Problem> problem =
        DecodeProblem(product, path, /*operands_optional=*/false, matrices);
    if (!problem.ok()) return problem.status();
    uint64_t output_bytes = 0;
    std::optional<DecodedResult> result;
    if (product.has_result()) {
      absl::StatusOr<DecodedResult> checked = CheckResult(product, *problem, path);
      if (!checked.ok()) return checked.status();
      result = *std::move(checked);
    } else {
      output_bytes = static_cast<uint64_t>(
                         ExtentElements(StoredC(*problem), problem->d, problem->batch_count)) *
                     SizeOf(problem->dtype);
    }
    if (output_bytes > context_.reply_limit_bytes) {
      return ErrorWithReason(
          Reason::kResultTooLarge,
          absl::StrCat(path.Text(), ": the result has ", output_bytes, " bytes, over the limit of ",
                       context_.reply_limit_bytes,
                       " for a reply: let it stay on the server (result), and read it by rows"),
          path.Text());
    }

    Use uses[] = {
        {"a", product.a(), StoredA(*problem), problem->a, ReadsAB(*problem), matrices.a, decoded.a},
        {"b", product.b(), StoredB(*problem), problem->b, ReadsAB(*problem), matrices.b, decoded.b},
        {"c", product.c(), StoredC(*problem), problem->c, ReadsC(*problem), matrices.c, decoded.c}};
    const absl::Span<Use> given(uses, product.has_c() ? 3 : 2);
    for (Use& use : given) {
      absl::Status status = use.matrix != nullptr ? CheckRows(use, *problem, path)
                                                  : CheckPayload(use, *problem, path);
      if (!status.ok()) return status;
    }
    for (const Use& use : given) {
      if (use.matrix == nullptr) BindPayload(use);
    }
    if (result) {
      if (!result->name.empty()) result_names_.insert(result->name);
      result->product = decoded_.products.size() - 1;
      decoded_.results.push_back(*std::move(result));
    }
    decoded.problem = *problem;
    decoded.output_offset_bytes = decoded_.output_bytes;
    decoded.output_bytes = output_bytes;
    decoded_.output_bytes += AlignedSize(output_bytes);
    return absl::OkStatus();
  }

  // The matrix that an operand names.
  absl::Status Find(const char* name, const v1::Operand& operand, const ProductPath& path,
                    std::shared_ptr<const DeviceMatrix>& matrix) const {
    const std::string field = path.Field(name);
    if (absl::Status status = CheckMatrixName(operand.matrix().name(), field + ".matrix.name");
        !status.ok()) {
      return status;
    }
    if (operand.leading_dimension() != 0) {
      return Invalid(field + ".leading_dimension",
                     "must be 0 for rows of a matrix that stays on the server");
    }
    if (operand.has_batch_stride() && operand.batch_stride() != 0) {
      return Invalid(field + ".batch_stride",
                     "must be unset or 0 for rows of a matrix that stays on the server");
    }
    absl::StatusOr<std::shared_ptr<const DeviceMatrix>> found =
        context_.find_matrix(operand.matrix().name());
    if (!found.ok()) {
      const std::optional<Reason> reason = ReasonOf(found.status());
      if (!reason) return found.status();
      return ErrorWithReason(
          *reason, absl::StrCat(field, ".matrix: ", std::string(found.status().message())),
          field + ".matrix");
    }
    matrix = *std::move(found);
    return absl::OkStatus();
  }

  absl::StatusOr<DecodedResult> CheckResult(const v1::Product& product, const Problem& problem,
                                            const ProductPath& path) const {
    const std::string& name = product.result().name();
    const std::string field = path.Field("result.name");
    if (!name.empty()) {
      if (absl::Status status = CheckMatrixName(name, field); !status.ok()) return status;
      for (const v1::Operand* operand : {&product.a(), &product.b(), &product.c()}) {
        if (operand->matrix().name() == name) {
          return Invalid(field, "is the name of an operand: a result is a new matrix");
        }
      }
      if (result_names_.contains(name)) {
        return Invalid(field, "is the name of another product's result");
      }
    }
    const absl::StatusOr<absl::Duration> time_to_live =
        DecodeTimeToLive(product.result().time_to_live_ns(), context_.time_to_live_limit,
                         path.Field("result.time_to_live_ns"));
    if (!time_to_live.ok()) return time_to_live.status();
    DecodedResult result{.name = name,
                         .spec = {problem.dtype, problem.batch_count * problem.m, problem.n},
                         .time_to_live = *time_to_live};
    if (!IsValid(result.spec)) return Invalid(path.Field("result"), "has more bytes than 2^62");
    return result;
  }

  // Rows of a matrix, and where they are.
  static absl::Status CheckRows(Use& use, const Problem& problem, const ProductPath& path) {
    const v1::MatrixRows& asked = use.operand.matrix();
    const std::string field = path.Field(absl::StrCat(use.name, ".matrix."));
    absl::StatusOr<RowRange> rows =
        ResolveRows(use.matrix->spec(), asked.row_begin(), asked.row_count(), field);
    if (!rows.ok()) return rows.status();
    const int64_t needed =
        use.layout.batch_stride == 0 ? use.stored.rows : use.stored.rows * problem.batch_count;
    if (needed == 0 && asked.row_count() == 0) rows->end = rows->begin;
    if (problem.batch_count > 0 && rows->count() != needed) {
      return Invalid(field + "row_count", absl::StrCat(rows->count(), " rows, but operand ",
                                                       path.Operand(use.name), " needs ", needed));
    }
    if (!use.read || rows->count() == 0 || use.stored.columns == 0) return absl::OkStatus();
    const DeviceMatrix& matrix = *use.matrix;
    const size_t offset = static_cast<size_t>(rows->begin) * matrix.pitch_bytes();
    const size_t last = static_cast<size_t>(rows->count() - 1) * matrix.pitch_bytes();
    use.span = {offset, last + matrix.row_bytes(), use.matrix};
    // The largest power of two that the offset is a multiple of.
    const size_t alignment = offset == 0 ? kOperandAlignment : offset & (~offset + 1);
    use.layout.alignment_bytes = static_cast<int32_t>(std::min(alignment, kOperandAlignment));
    return absl::OkStatus();
  }

  absl::Status CheckPayload(const Use& use, const Problem& problem, const ProductPath& path) const {
    if (use.operand.source_case() != v1::Operand::kPayload) {
      return Invalid(path.Field(absl::StrCat(use.name, ".payload")),
                     "must name an entry of payloads, unless it is rows of a matrix");
    }
    const uint32_t index = use.operand.payload();
    if (index >= payloads_.size()) {
      return Invalid(path.Field(absl::StrCat(use.name, ".payload")),
                     absl::StrCat("index ", index, " is out of range: the request has ",
                                  payloads_.size(), " payloads"));
    }
    const uint64_t needed_bytes =
        static_cast<uint64_t>(ExtentElements(use.stored, use.layout, problem.batch_count)) *
        SizeOf(problem.dtype);
    const uint64_t given_bytes = payloads_[index].size_bytes;
    if (given_bytes != needed_bytes) {
      return Invalid(absl::StrCat("payloads[", index, "]"),
                     absl::StrCat("has ", given_bytes, " bytes, but operand ",
                                  path.Operand(use.name), " needs ", needed_bytes));
    }
    return absl::OkStatus();
  }

  // Requires a use that has been checked.
  void BindPayload(const Use& use) {
    const PayloadRange& payload = payloads_[use.operand.payload()];
    if (!use.read || payload.size_bytes == 0) return;
    Place& place = places_[use.operand.payload()];
    if (!place.copied) {
      place.copied = true;
      place.offset_bytes = decoded_.input_bytes;
      decoded_.copies.push_back({payload, place.offset_bytes});
      decoded_.input_bytes += AlignedSize(payload.size_bytes);
    }
    use.span = {place.offset_bytes, payload.size_bytes, nullptr};
  }

  const std::vector<PayloadRange>& payloads_;
  const DecodeContext& context_;
  DecodedProducts decoded_;
  std::set<std::string> result_names_;
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
  if (given.size() > kMaxRequestIdBytes || !IsPrintable(given)) {
    return Invalid("request_id", absl::StrCat("must be at most ", kMaxRequestIdBytes,
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

absl::StatusOr<DType> DecodeDataType(v1::DataType data_type, const std::string& field) {
  switch (data_type) {
    case v1::DATA_TYPE_F32:
      return DType::kF32;
    case v1::DATA_TYPE_F64:
      return DType::kF64;
    case v1::DATA_TYPE_UNSPECIFIED:
      return Invalid(field, "must be set, for example to DATA_TYPE_F32");
    default:
      return Invalid(field, absl::StrCat("unknown value ", int{data_type}));
  }
}

absl::StatusOr<Problem> DecodeProduct(const v1::Product& product, bool operands_optional) {
  return DecodeProblem(product, ProductPath(), operands_optional, OperandMatrices());
}

absl::StatusOr<DecodedProducts> DecodeMultiply(absl::Span<const Segment> message,
                                               const DecodeContext& context,
                                               std::string& request_id) {
  absl::StatusOr<BulkIndex> index = Index(message, BulkLimits());
  if (!index.ok()) return index.status();
  v1::MultiplyRequest request;
  absl::Status status = ParseDescription(index->description, request);
  if (!status.ok()) return status;
  status = TakeRequestId(request.request_id(), request_id);
  if (!status.ok()) return status;
  if (!request.has_product()) return Invalid("product", "is missing");

  ProductDecoder decoder(index->payloads, 1, context);
  status = decoder.Add(request.product(), ProductPath()).status;
  if (!status.ok()) return status;
  status = decoder.CheckAllNamed();
  if (!status.ok()) return status;
  return std::move(decoder).Finish();
}

absl::StatusOr<DecodedProducts> DecodeMultiplyBatch(absl::Span<const Segment> message,
                                                    const DecodeContext& context,
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

  ProductDecoder decoder(index->payloads, request.products_size(), context);
  uint64_t result_bytes = 0;
  for (int i = 0; i < request.products_size(); ++i) {
    result_bytes += decoder.Add(request.products(i), ProductPath(i)).output_bytes;
  }
  status = decoder.CheckAllNamed();
  if (!status.ok()) return status;
  if (result_bytes > context.reply_limit_bytes) {
    return ErrorWithReason(
        Reason::kResultTooLarge,
        absl::StrCat("products: their results have ", result_bytes, " bytes, over the limit of ",
                     context.reply_limit_bytes, " for a reply"),
        "products");
  }
  return std::move(decoder).Finish();
}

}  // namespace gemm
