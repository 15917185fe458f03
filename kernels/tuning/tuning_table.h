// Measured times, by which Select corrects modelled ones: constant data, one row for each product
// that was measured. `gemm_bench --mode=tune` writes the rows; people read them.

#ifndef GEMMD_KERNELS_TUNING_TUNING_TABLE_H_
#define GEMMD_KERNELS_TUNING_TUNING_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

inline constexpr size_t kLayouts = 32;

// Where a product lies among others: near ones take alike times.
struct Place {
  // Logarithms of m, n, k and the batch, in sixteenths of an octave.
  int16_t m = 0;
  int16_t n = 0;
  int16_t k = 0;
  int16_t batch = 0;
  // How operands are read, a bit each: A and B transposed; rows of A, B and D that are not 16-byte
  // aligned.
  uint8_t layout = 0;  // less than kLayouts

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

// Places that lie nearest to one, the nearest first, ties in the order of their numbers.
struct NearPlaces {
  static constexpr size_t kMost = 12;
  static constexpr int kTooFar = 6;  // octaves: such a place says nothing
  struct Near {
    size_t number = 0;
    double squared_distance = 0;
  };
  std::array<Near, kMost> near;
  size_t count = 0;

  std::span<const Near> span() const { return {near.data(), count}; }
};

// Many places, numbered as they are added. They are kept by layout: most other layouts are too far
// away to be looked at.
class Places {
 public:
  void Add(const Place& place) { by_layout_[place.layout].push_back({place, count_++}); }
  NearPlaces Nearest(const Place& place) const;

 private:
  struct Numbered {
    Place place;
    uint32_t number;
  };
  std::array<std::vector<Numbered>, kLayouts> by_layout_;
  uint32_t count_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_TUNING_TUNING_TABLE_H_
