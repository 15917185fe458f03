#include "kernels/tuning/tuning_table.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <initializer_list>

namespace gemm {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kF64 = DType::kF64;

constexpr int8_t NearestLog2(int64_t value) {
  const auto size = static_cast<uint64_t>(std::max<int64_t>(1, value));
  const int floor = std::bit_width(size) - 1;
  // Past sqrt(2) times the power, the next one is nearer: size^2 > 2 * 4^floor.
  const unsigned __int128 square = static_cast<unsigned __int128>(size) * size;
  return static_cast<int8_t>(square >> (2 * floor + 1) != 0 ? floor + 1 : floor);
}

// Rows shorter than this are never aligned, and it does not matter.
constexpr int64_t kShortRow = 4;

// How the generated files write a row: the sizes themselves rather than their logarithms, of ragged
// rows one less, and both transposes as two letters, N for as stored.
constexpr TuningRow Row(DType dtype, std::string_view transposes, int64_t m, int64_t n, int64_t k,
                        int64_t batch_count, std::initializer_list<MeasuredKernel> kernels) {
  TuningRow row;
  const bool ragged = std::max({m, n, k}) % 2 != 0 && std::max({m, n, k}) > 1;
  row.bucket = {dtype,          transposes[0] == 'T', transposes[1] == 'T',     NearestLog2(m),
                NearestLog2(n), NearestLog2(k),       NearestLog2(batch_count), ragged};
  size_t place = 0;
  for (const MeasuredKernel& kernel : kernels) row.kernels[place++] = kernel;
  return row;
}

// One array for each generated file.
#include "kernels/tuning/sm_90.inc"

constexpr std::span<const TuningRow> kSm90Rows(kSm90.data(), kSm90.size());
static_assert(std::is_sorted(kSm90Rows.begin(), kSm90Rows.end(),
                             [](const TuningRow& a, const TuningRow& b) {
                               return a.bucket < b.bucket;
                             }),
              "rows are found by binary search");

constexpr TuningTable kTables[] = {{90, 132, kSm90Rows}};
constexpr TuningTable kNoTable;

// Weights of a distance. A step in the batch says less than one in a size; another transpose or
// another alignment changes how operands are read, but not how much there is to do.
constexpr int kSizeStep = 2;
constexpr int kBatchStep = 1;
constexpr int kOtherTranspose = 3;
constexpr int kOtherAlignment = 3;

int Distance(const ShapeBucket& a, const ShapeBucket& b) {
  return kSizeStep * (std::abs(a.log2_m - b.log2_m) + std::abs(a.log2_n - b.log2_n) +
                      std::abs(a.log2_k - b.log2_k)) +
         kBatchStep * std::abs(a.log2_batch - b.log2_batch) +
         kOtherTranspose *
             ((a.transpose_a != b.transpose_a ? 1 : 0) + (a.transpose_b != b.transpose_b ? 1 : 0)) +
         kOtherAlignment * (a.ragged != b.ragged ? 1 : 0);
}

bool IsRagged(const Problem& problem) {
  const int64_t granule = 16 / static_cast<int64_t>(SizeOf(problem.dtype));
  const auto ragged = [granule](const MatrixLayout& layout, int64_t columns) {
    return columns >= kShortRow && (layout.ld % granule != 0 || layout.alignment_bytes % 16 != 0);
  };
  return ragged(problem.a, StoredA(problem).columns) ||
         ragged(problem.b, StoredB(problem).columns) || ragged(problem.d, problem.n);
}

}  // namespace

int8_t RoundedLog2(int64_t value) { return NearestLog2(value); }

ShapeBucket BucketOf(const Problem& problem) {
  return {problem.dtype,
          problem.a.transposed,
          problem.b.transposed,
          RoundedLog2(problem.m),
          RoundedLog2(problem.n),
          RoundedLog2(problem.k),
          RoundedLog2(problem.batch_count),
          IsRagged(problem)};
}

Problem CentreOf(const ShapeBucket& bucket) {
  const auto power = [](int8_t log2) { return int64_t{1} << std::min<int>(log2, 62); };
  const auto size = [&](int8_t log2) {
    return power(log2) - (bucket.ragged && power(log2) > kShortRow ? 1 : 0);
  };
  Problem problem = DenseProblem(bucket.dtype, size(bucket.log2_m), size(bucket.log2_n),
                                 size(bucket.log2_k), power(bucket.log2_batch));
  problem.a.transposed = bucket.transpose_a;
  problem.b.transposed = bucket.transpose_b;
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

NearRows NearestRows(const TuningTable& table, const ShapeBucket& bucket) {
  NearRows found;
  const auto own = std::lower_bound(
      table.rows.begin(), table.rows.end(), bucket,
      [](const TuningRow& row, const ShapeBucket& wanted) { return row.bucket < wanted; });
  if (own != table.rows.end() && own->bucket == bucket) {
    found.near[found.count++] = {&*own, 0};
    return found;
  }
  for (const TuningRow& row : table.rows) {
    if (row.bucket.dtype != bucket.dtype) continue;
    const int distance = Distance(row.bucket, bucket);
    if (distance >= NearRows::kTooFar) continue;
    // Insertion: the few that are kept stay in order.
    size_t place = found.count;
    while (place > 0 && found.near[place - 1].distance > distance) --place;
    if (place == NearRows::kMost) continue;
    found.count = std::min(found.count + 1, NearRows::kMost);
    std::copy_backward(found.near.begin() + place, found.near.begin() + found.count - 1,
                       found.near.begin() + found.count);
    found.near[place] = {&row, distance};
  }
  return found;
}

}  // namespace gemm
