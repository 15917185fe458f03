#include "client/cpp/internal/matrix_name.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "client/cpp/internal/error.h"
#include "proto/limits.h"

namespace gemm::client {
namespace {

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

absl::Status CheckMatrixName(const std::string& field, const std::string& name) {
  if (!name.empty() && name.size() <= kMaxMatrixNameBytes &&
      std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return absl::OkStatus();
  }
  return InvalidField(field, "must be 1 to 128 of A-Z a-z 0-9 . _ -");
}

std::string NewMatrixName() {
  std::random_device random;
  const auto bits = [&random] { return static_cast<uint32_t>(random()); };
  // Version 4, variant 1.
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%04x%08x", bits(), bits() & 0xffff, bits() & 0xfff,
                         0x8000 | (bits() & 0x3fff), bits() & 0xffff, bits());
}

}  // namespace gemm::client
