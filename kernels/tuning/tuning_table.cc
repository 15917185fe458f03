#include "kernels/tuning/tuning_table.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <initializer_list>

namespace gemm {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kF64 = DType::kF64;

constexpr int kOctave = 16;  // of a Place

// Rows shorter than this are never aligned, and it does not matter.
constexpr int64_t kShortRow = 4;

// In sixteenths, rounded down.
constexpr int16_t Log2(int64_t value) {
  const auto size = static_cast<uint64_t>(std::max<int64_t>(1, value));
  const int floor = std::bit_width(size) - 1;
  uint64_t mantissa = floor > 31 ? size >> (floor - 31) : size << (31 - floor);  // 1 is 2^31
  int log2 = floor;
  for (int bit = 1; bit < kOctave; bit *= 2) {
    mantissa = (mantissa * mantissa) >> 31;
    const bool above_2 = mantissa >> 32 != 0;
    log2 = 2 * log2 + (above_2 ? 1 : 0);
    if (above_2) mantissa >>= 1;
  }
  return static_cast<int16_t>(log2);
}

constexpr Place MakePlace(const std::array<int64_t, 4>& sizes, bool transpose_a, bool transpose_b,
                          bool ragged_a, bool ragged_b, bool ragged_d) {
  const int layout = (transpose_a ? 1 : 0) + (transpose_b ? 2 : 0) + (ragged_a ? 4 : 0) +
                     (ragged_b ? 8 : 0) + (ragged_d ? 16 : 0);
  return {Log2(sizes[0]), Log2(sizes[1]), Log2(sizes[2]), Log2(sizes[3]),
          static_cast<uint8_t>(layout)};
}

// Squared distances are counted in sixteenths of an octave.
constexpr int kSquaredOctave = kOctave * kOctave;
constexpr int kOtherLayout = kSquaredOctave * 25 / 4;  // 2.5 octaves

int SquaredStepsOfSizes(const Place& a, const Place& b) {
  constexpr int kBatchStep = 2;  // octaves of the batch that say as much as one of a size
  const auto square = [](int x, int y) { return (x - y) * (x - y); };
  return square(a.m, b.m) + square(a.n, b.n) + square(a.k, b.k) +
         square(a.batch, b.batch) / (kBatchStep * kBatchStep);
}

// What two layouts may differ in, the fewest things first.
constexpr auto kByDifference = [] {
  std::array<uint8_t, kLayouts> differences{};
  size_t count = 0;
  for (int bits = 0; count < kLayouts; ++bits) {
    for (unsigned difference = 0; difference < kLayouts; ++difference) {
      if (std::popcount(difference) == bits) differences[count++] = difference;
    }
  }
  return differences;
}();

// How the generated files write a row: both transposes as two letters, N for as stored.
constexpr TuningRow Row(DType dtype, std::string_view transposes, int64_t m, int64_t n, int64_t k,
                        int64_t batch_count, std::initializer_list<MeasuredKernel> kernels) {
  TuningRow row{dtype, transposes[0] == 'T', transposes[1] == 'T', m, n, k, batch_count, {}, {}};
  const int64_t granule = dtype == DType::kF32 ? 4 : 2;
  const auto ragged = [granule](int64_t columns) {
    return columns >= kShortRow && columns % granule != 0;
  };
  row.place =
      MakePlace({m, n, k, batch_count}, row.transpose_a, row.transpose_b,
                ragged(row.transpose_a ? m : k), ragged(row.transpose_b ? k : n), ragged(n));
  size_t place = 0;
  for (const MeasuredKernel& kernel : kernels) row.kernels[place++] = kernel;
  return row;
}

// One array for each generated file.
#include "kernels/tuning/sm_90.inc"

constexpr TuningTable kTables[] = {{90, 132, {kSm90.data(), kSm90.size()}}};
constexpr TuningTable kNoTable;

}  // namespace

Place PlaceOf(const Problem& problem) {
  const int64_t granule = 16 / static_cast<int64_t>(SizeOf(problem.dtype));
  const auto ragged = [granule](const MatrixLayout& layout, int64_t columns) {
    return columns >= kShortRow && (layout.ld % granule != 0 || layout.alignment_bytes % 16 != 0);
  };
  return MakePlace({problem.m, problem.n, problem.k, problem.batch_count}, problem.a.transposed,
                   problem.b.transposed, ragged(problem.a, StoredA(problem).columns),
                   ragged(problem.b, StoredB(problem).columns), ragged(problem.d, problem.n));
}

double SquaredDistance(const Place& a, const Place& b) {
  return static_cast<double>(SquaredStepsOfSizes(a, b) +
                             kOtherLayout *
                                 std::popcount(static_cast<unsigned>(a.layout ^ b.layout))) /
         kSquaredOctave;
}

Problem ProductOf(const TuningRow& row) {
  Problem problem = DenseProblem(row.dtype, row.m, row.n, row.k, row.batch_count);
  problem.a.transposed = row.transpose_a;
  problem.b.transposed = row.transpose_b;
  problem.a.ld = StoredA(problem).columns;
  problem.b.ld = StoredB(problem).columns;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->alignment_bytes = 256;
  }
  return problem;
}

const TuningTable& TuningFor(const DeviceInfo& device) {
  for (const TuningTable& table : kTables) {
    if (table.compute_capability == device.compute_capability &&
        table.multiprocessors == device.multiprocessors) {
      return table;
    }
  }
  return kNoTable;
}

NearPlaces Places::Nearest(const Place& place) const {
  // A squared distance, and behind it the number, which settles ties.
  const auto key_of = [](int squared_steps, uint32_t number) {
    return uint64_t{static_cast<uint32_t>(squared_steps)} << 32 | number;
  };
  const uint64_t too_far = key_of(NearPlaces::kTooFar * NearPlaces::kTooFar * kSquaredOctave, 0);
  std::array<uint64_t, NearPlaces::kMost> keys;
  keys.fill(too_far);
  // The layout itself, then those that differ in one thing, and so on.
  for (unsigned other : kByDifference) {
    const int layouts = kOtherLayout * std::popcount(other);
    if (key_of(layouts, 0) > keys.back()) break;
    for (const Numbered& there : by_layout_[place.layout ^ other]) {
      const uint64_t key = key_of(layouts + SquaredStepsOfSizes(there.place, place), there.number);
      if (key >= keys.back()) continue;
      // Insertion: the few that are kept stay in order.
      size_t at = keys.size() - 1;
      for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
      keys[at] = key;
    }
  }
  NearPlaces found;
  for (; found.count < keys.size() && keys[found.count] < too_far; ++found.count) {
    found.near[found.count] = {static_cast<uint32_t>(keys[found.count]),
                               static_cast<double>(keys[found.count] >> 32) / kSquaredOctave};
  }
  return found;
}

}  // namespace gemm
