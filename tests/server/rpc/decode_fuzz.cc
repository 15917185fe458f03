// Random and mutated requests through the decoder: it must answer each with a problem that is safe
// to run or with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. Usage: decode_fuzz SECONDS [SEED].
// Most useful under the address sanitizer.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "server/rpc/decode.h"
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
  if (random() % 4 == 0) operand.set_transposed(random() % 2);
  if (random() % 4 == 0) operand.set_leading_dimension(Number(random));
  if (random() % 4 == 0) operand.set_batch_stride(Number(random));
}

std::string RandomRequest(Random& random) {
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
  if (random() % 4 == 0) request.add_payloads(std::string(random() % 300, 'p'));
  std::string wire = request.SerializeAsString();
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

// What the rest of the server relies on.
bool IsSafe(const DecodedMultiply& decoded, uint64_t message_bytes) {
  if (Validate(decoded.problem)) return false;
  if (decoded.output_bytes > kReplyLimitBytes) return false;
  for (const PayloadCopy& copy : decoded.copies) {
    if (copy.source.offset_bytes + copy.source.size_bytes > message_bytes) return false;
    if (copy.offset_bytes + copy.source.size_bytes > decoded.input_bytes) return false;
  }
  for (const InputSpan& span : {decoded.a, decoded.b, decoded.c}) {
    if (span.offset_bytes + span.size_bytes > decoded.input_bytes) return false;
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
      const std::string wire = RandomRequest(random);
      const std::vector<Segment> message = Cut(wire, 1 + random() % 64);
      std::string request_id;
      const auto decoded = DecodeMultiply(message, kReplyLimitBytes, request_id);
      const bool good = decoded.ok() ? IsSafe(*decoded, wire.size())
                                     : absl::IsInvalidArgument(decoded.status()) ||
                                           absl::IsResourceExhausted(decoded.status());
      if (!good) {
        std::fprintf(
            stderr, "decode_fuzz: seed %llu: %s\n", static_cast<unsigned long long>(seed),
            decoded.ok() ? "an unsafe problem was accepted" : decoded.status().ToString().c_str());
        return 1;
      }
      if (decoded.ok()) {
        std::string input(decoded->input_bytes, '\0');
        for (const PayloadCopy& copy : decoded->copies) {
          CopyPayload(message, copy.source, input.data() + copy.offset_bytes);
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
