// Random and mutated requests through the decoders: they must answer each with products that are
// safe to run or with an error that is the caller's. Usage: decode_fuzz SECONDS [SEED].
// Most useful under the address sanitizer.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "server/rpc/decode.h"
#include "tests/server/rpc/known_matrices.h"
#include "tests/server/rpc/request_bytes.h"

namespace gemm {
namespace {

constexpr uint64_t kReplyLimitBytes = 1 << 20;

using Random = std::mt19937_64;

int64_t Number(Random& random) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return static_cast<int64_t>(random());
    case 2:
      return (int64_t{1} << (random() % 63)) - static_cast<int64_t>(random() % 3);
    case 3:
      return -static_cast<int64_t>(random() % 5);
    default:
      return static_cast<int64_t>(random() % 20);
  }
}

void Randomise(v1::Operand& operand, Random& random) {
  if (random() % 4 == 0) operand.set_payload(random() % 4);
  if (random() % 4 == 0) {
    constexpr const char* kNames[] = {"f32", "wide", "f64", "open", "none", "a b"};
    v1::MatrixRows& rows = *operand.mutable_matrix();
    rows.set_name(kNames[random() % std::size(kNames)]);
    if (random() % 2 == 0) rows.set_row_begin(Number(random));
    if (random() % 2 == 0) rows.set_row_count(Number(random));
  }
  if (random() % 4 == 0) operand.set_transposed(random() % 2);
  if (random() % 4 == 0) operand.set_leading_dimension(Number(random));
  if (random() % 4 == 0) operand.set_batch_stride(Number(random));
}

v1::MultiplyRequest RandomRequest(Random& random) {
  v1::MultiplyRequest request = MakeRequest(random() % 9, random() % 9, random() % 9);
  v1::Product& product = *request.mutable_product();
  if (random() % 3 == 0) product.set_m(Number(random));
  if (random() % 3 == 0) product.set_n(Number(random));
  if (random() % 3 == 0) product.set_k(Number(random));
  if (random() % 4 == 0) product.set_batch_count(Number(random));
  if (random() % 4 == 0) product.set_data_type(static_cast<v1::DataType>(random() % 5));
  if (random() % 4 == 0) product.set_beta(1);
  if (random() % 2 == 0) Randomise(*product.mutable_a(), random);
  if (random() % 2 == 0) Randomise(*product.mutable_b(), random);
  if (random() % 2 == 0) Randomise(*product.mutable_c(), random);
  // Of the shape of the matrices that there are.
  if (random() % 8 == 0) product.set_k(random() % 2 == 0 ? 6 : 300);
  if (random() % 8 == 0) product.mutable_result()->set_name(random() % 2 == 0 ? "d" : "f32");
  if (random() % 4 == 0) request.add_payloads(std::string(random() % 300, 'p'));
  return request;
}

v1::MultiplyBatchRequest RandomBatch(Random& random) {
  v1::MultiplyBatchRequest batch;
  for (uint64_t left = random() % 6; left > 0; --left) {
    v1::MultiplyRequest one = RandomRequest(random);
    v1::Product& product = *batch.add_products();
    product.Swap(one.mutable_product());
    // Mostly its own payloads, now and then another's.
    const int first = random() % 4 == 0 ? 0 : batch.payloads_size();
    for (v1::Operand* operand : {product.mutable_a(), product.mutable_b(), product.mutable_c()}) {
      if (operand->source_case() == v1::Operand::kPayload) {
        operand->set_payload(operand->payload() + first);
      }
    }
    for (std::string& payload : *one.mutable_payloads()) batch.add_payloads(std::move(payload));
  }
  return batch;
}

std::string Mutate(std::string wire, Random& random) {
  for (int mutations = random() % 4; mutations > 0 && !wire.empty(); --mutations) {
    const size_t at = random() % wire.size();
    switch (random() % 4) {
      case 0:
        wire[at] = static_cast<char>(random());
        break;
      case 1:
        wire.erase(at, random() % 8);
        break;
      case 2:
        wire.insert(at, wire.substr(random() % wire.size(), random() % 16));
        break;
      default:
        wire.resize(at);
    }
  }
  return wire;
}

bool IsExpected(const absl::Status& error) {
  return absl::IsInvalidArgument(error) || absl::IsResourceExhausted(error) ||
         absl::IsNotFound(error) || absl::IsFailedPrecondition(error);
}

// What the rest of the server relies on.
bool IsSafe(const DecodedProducts& decoded, uint64_t message_bytes) {
  uint64_t end_bytes = 0;     // of the results so far
  uint64_t result_bytes = 0;  // on the wire
  for (const JobProduct& product : decoded.products) {
    if (!product.status.ok()) {
      if (!IsExpected(product.status)) return false;
      if (product.output_bytes != 0) return false;
      continue;
    }
    if (Validate(product.problem)) return false;
    if (product.output_offset_bytes % kOperandAlignment != 0) return false;
    if (product.output_offset_bytes < end_bytes) return false;
    end_bytes = product.output_offset_bytes + product.output_bytes;
    result_bytes += product.output_bytes;
    for (const InputSpan& span : {product.a, product.b, product.c}) {
      const uint64_t bytes =
          span.matrix == nullptr ? decoded.input_bytes : MemoryBytes(span.matrix->spec());
      if (span.offset_bytes + span.size_bytes > bytes) return false;
    }
    // Where the kernels will read.
    const Problem& p = product.problem;
    const auto reaches = [&p](MatrixShape shape, const MatrixLayout& layout,
                              const InputSpan& span) {
      const int64_t elements = ExtentElements(shape, layout, p.batch_count);
      return static_cast<uint64_t>(elements) * SizeOf(p.dtype) > span.size_bytes;
    };
    if (ReadsAB(p) && reaches(StoredA(p), p.a, product.a)) return false;
    if (ReadsAB(p) && reaches(StoredB(p), p.b, product.b)) return false;
    if (ReadsC(p) && reaches(StoredC(p), p.c, product.c)) return false;
  }
  for (const DecodedResult& result : decoded.results) {
    if (result.product >= decoded.products.size() || !IsValid(result.spec)) return false;
    if (decoded.products[result.product].output_bytes != 0) return false;
  }
  if (decoded.products.empty() || end_bytes > decoded.output_bytes) return false;
  if (result_bytes > kReplyLimitBytes) return false;
  uint64_t from = 0;
  for (const PayloadCopy& copy : decoded.copies) {
    if (copy.source.offset_bytes < from) return false;  // in order, each once
    from = copy.source.offset_bytes + copy.source.size_bytes;
    if (copy.source.offset_bytes + copy.source.size_bytes > message_bytes) return false;
    if (copy.offset_bytes + copy.source.size_bytes > decoded.input_bytes) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device()();
  Random random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t valid = 0, refused = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 1000; ++i) {
      const bool batch = random() % 2 == 0;
      const std::string wire = Mutate(batch ? RandomBatch(random).SerializeAsString()
                                            : RandomRequest(random).SerializeAsString(),
                                      random);
      const std::vector<Segment> message = Cut(wire, 1 + random() % 64);
      std::string request_id;
      const auto decoded = (batch ? DecodeMultiplyBatch : DecodeMultiply)(
          message, WithKnownMatrices(kReplyLimitBytes), request_id);
      const bool good = decoded.ok() ? IsSafe(*decoded, wire.size()) : IsExpected(decoded.status());
      if (!good) {
        std::fprintf(
            stderr, "decode_fuzz: seed %llu: %s\n", static_cast<unsigned long long>(seed),
            decoded.ok() ? "an unsafe problem was accepted" : decoded.status().ToString().c_str());
        return 1;
      }
      if (decoded.ok()) {
        std::string input(decoded->input_bytes, '\0');
        PayloadReader payloads(message);
        for (const PayloadCopy& copy : decoded->copies) {
          payloads.Copy(copy.source, input.data() + copy.offset_bytes);
        }
        ++valid;
      } else {
        ++refused;
      }
    }
  }
  std::printf("decode_fuzz: seed %llu: %llu accepted, %llu refused\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(valid),
              static_cast<unsigned long long>(refused));
  return valid > 0 && refused > 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) { return gemm::Main(argc, argv); }
