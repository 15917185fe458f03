// Measured times, which Select prefers to modelled ones: constant data, one row for each bucket of
// shapes. `gemm_bench --mode=tune` writes the rows; people read them.

#ifndef GEMMD_KERNELS_TUNING_TUNING_TABLE_H_
#define GEMMD_KERNELS_TUNING_TUNING_TABLE_H_

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

// The problems of one type and one pair of transposes whose sizes round to the same powers of two,
// those with rows that are not 16-byte aligned apart: kernels copy them differently.
struct ShapeBucket {
  DType dtype = DType::kF32;
  bool transpose_a = false;
  bool transpose_b = false;
  int8_t log2_m = 0;
  int8_t log2_n = 0;
  int8_t log2_k = 0;
  int8_t log2_batch = 0;
  bool ragged = false;

  // NOLINTNEXTLINE(modernize-use-nullptr): it sees a 0 in what the compiler makes of this
  friend constexpr auto operator<=>(const ShapeBucket&, const ShapeBucket&) = default;
};

// log2 of a value of at least 1, rounded to the nearest: 5 is 2, 6 is 3.
int8_t RoundedLog2(int64_t value);

ShapeBucket BucketOf(const Problem& problem);

// The dense product that a bucket's row was measured on: every size the power of two itself, or one
// less if its rows are ragged.
Problem CentreOf(const ShapeBucket& bucket);

struct MeasuredKernel {
  std::string_view kernel;  // a full name; empty: this place of the row is free
  double microseconds = 0;
};

inline constexpr int kKernelsARow = 4;

struct TuningRow {
  ShapeBucket bucket;
  std::array<MeasuredKernel, kKernelsARow> kernels;  // fastest first
};

struct TuningTable {
  // The devices that it speaks for.
  int compute_capability = 0;
  int multiprocessors = 0;
  std::span<const TuningRow> rows;  // in ascending order of their buckets
};

// The table of this build for the device; without rows if there is none.
const TuningTable& TuningFor(const DeviceInfo& device);

// Rows whose buckets are near a bucket, the nearest first, ties in the table's order: that bucket's
// own alone if it is there, and none that is too far away to say anything.
struct NearRows {
  static constexpr size_t kMost = 6;
  static constexpr int kTooFar = 6;  // three octaves in all: beyond that the model knows as much
  struct Near {
    const TuningRow* row = nullptr;
    int distance = 0;  // weighted octaves, see tuning_table.cc
  };
  std::array<Near, kMost> near;
  size_t count = 0;

  std::span<const Near> span() const { return {near.data(), count}; }
};
NearRows NearestRows(const TuningTable& table, const ShapeBucket& bucket);

}  // namespace gemm

#endif  // GEMMD_KERNELS_TUNING_TUNING_TABLE_H_
