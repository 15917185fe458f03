#include "server/memory/device_matrix.h"

#include <algorithm>

namespace gemm {
namespace {

constexpr int64_t kSizeLimit = int64_t{1} << 62;

}  // namespace

bool IsValid(const MatrixSpec& spec) {
  if (spec.rows < 0 || spec.columns < 0) return false;
  // A row with its padding, then all rows, in steps that cannot wrap.
  constexpr auto kPadding = static_cast<int64_t>(kRowAlignment);
  const auto element_bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  if (spec.columns > (kSizeLimit - kPadding) / element_bytes) return false;
  const int64_t pitch_bytes = std::max<int64_t>(1, LeadingDimension(spec)) * element_bytes;
  return spec.rows <= kSizeLimit / pitch_bytes;
}

int64_t LeadingDimension(const MatrixSpec& spec) {
  const auto element_bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  const int64_t row_bytes = spec.columns * element_bytes;
  if (row_bytes < static_cast<int64_t>(kPaddedRowBytes)) {
    return std::max<int64_t>(1, spec.columns);
  }
  constexpr auto kAlignment = static_cast<int64_t>(kRowAlignment);
  return (row_bytes + kAlignment - 1) / kAlignment * kAlignment / element_bytes;
}

uint64_t MemoryBytes(const MatrixSpec& spec) {
  if (spec.columns == 0) return 0;
  return static_cast<uint64_t>(spec.rows) * static_cast<uint64_t>(LeadingDimension(spec)) *
         SizeOf(spec.dtype);
}

DeviceMatrix::DeviceMatrix(int device, const MatrixSpec& spec, void* data)
    : device_(device),
      spec_(spec),
      leading_dimension_(LeadingDimension(spec)),
      data_(static_cast<std::byte*>(data)) {}

}  // namespace gemm
