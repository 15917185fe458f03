// Measured times, by which Select corrects modelled ones: constant data, one row for each product
// that was measured. `gemm_bench --mode=tune` writes the rows; people read them.

#ifndef GEMMD_KERNELS_TUNING_TUNING_TABLE_H_
#define GEMMD_KERNELS_TUNING_TUNING_TABLE_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

// Where a product lies among others: near ones take alike times.
struct Place {
  // Logarithms of m, n, k and the batch, in sixteenths of an octave.
  int16_t m = 0;
  int16_t n = 0;
  int16_t k = 0;
  int16_t batch = 0;
  // How operands are read, a bit each: A and B transposed; rows of A, B and D that are not 16-byte
  // aligned.
  uint8_t layout = 0;

  friend constexpr bool operator==(const Place&, const Place&) = default;
};

Place PlaceOf(const Problem& problem);

// The square of how far products are apart, in octaves of their sizes. An octave of the batch says
// less; another transposition or alignment of an operand counts as 2.5.
double SquaredDistance(const Place& a, const Place& b);

struct MeasuredKernel {
  std::string_view kernel;  // a full name; empty: this place of the row is free
  double microseconds = 0;
};

inline constexpr int kKernelsARow = 8;

struct TuningRow {
  DType dtype = DType::kF32;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch_count = 0;
  Place place;
  std::array<MeasuredKernel, kKernelsARow> kernels;  // fastest first
};

// The product of a row: dense, and aligned.
Problem ProductOf(const TuningRow& row);

struct TuningTable {
  // The devices that it speaks for.
  int compute_capability = 0;
  int multiprocessors = 0;
  std::span<const TuningRow> rows;
};

// The table of this build for the device; without rows if there is none.
const TuningTable& TuningFor(const DeviceInfo& device);

// The rows of a problem's type that lie nearest to it, the nearest first, ties in the table's
// order; none that is too far away to say anything.
struct NearRows {
  static constexpr size_t kMost = 12;
  static constexpr double kTooFar = 6;  // octaves
  struct Near {
    const TuningRow* row = nullptr;
    double squared_distance = 0;
  };
  std::array<Near, kMost> near;
  size_t count = 0;

  std::span<const Near> span() const { return {near.data(), count}; }
};
NearRows NearestRows(const TuningTable& table, const Problem& problem);

}  // namespace gemm

#endif  // GEMMD_KERNELS_TUNING_TUNING_TABLE_H_
