// How long a tiled kernel should take, from the device's rates alone. It ranks configurations where
// no measured row does; it is not a prediction to plan by.
//
// A wave is one tile on every multiprocessor. Tiles that share a multiprocessor share its
// arithmetic, so counting them as waves that follow each other costs the same, and a last wave that
// fills half the device still takes a whole wave: that is what makes large tiles lose on small
// problems. A wave takes the larger of
//
//   math   the tile's multiply-adds, edges of D that fall outside included, at the fraction of the
//          multiprocessor's peak that the configuration reaches on large products;
//   bytes  what its tiles read of A and B, at the memory's rate. Much of it comes from the L2
//          cache, which is faster, but not by enough to rank two kernels of this kind otherwise.
//
// And however few the waves, no tile is done before its own chain of k steps: a tile alone on a
// multiprocessor has nobody to hide its latencies behind, and reaches a lower fraction. That floor
// is what makes small tiles win where the device is not filled.

#ifndef GEMMD_KERNELS_FAMILIES_COST_MODEL_H_
#define GEMMD_KERNELS_FAMILIES_COST_MODEL_H_

#include <algorithm>
#include <cmath>

#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

struct TileCost {
  int tile_m = 1;
  int tile_n = 1;
  // Fractions of a multiprocessor's peak multiply-add rate, both measured.
  double math_fraction = 1;  // with as many tiles as it takes: 4096 x 4096 x 4096
  double lone_fraction = 1;  // with one: tile_m x tile_n x 4096
};

inline double ModelTileSeconds(const Problem& problem, const DeviceInfo& device,
                               const TileCost& cost) {
  const double element_bytes = static_cast<double>(SizeOf(problem.dtype));
  const double multiprocessors = std::max(1, device.multiprocessors);
  const double peak =
      problem.dtype == DType::kF32 ? device.f32_flops_per_second : device.f64_flops_per_second;
  const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
  const double tiles = std::ceil(static_cast<double>(problem.m) / cost.tile_m) *
                       std::ceil(static_cast<double>(problem.n) / cost.tile_n) *
                       static_cast<double>(problem.batch_count);
  const double waves = std::ceil(tiles / multiprocessors);
  const double tile_flops = 2.0 * cost.tile_m * cost.tile_n * k;
  const double tile_seconds = tile_flops / (std::max(1.0, peak) / multiprocessors);
  const double wave_bytes =
      std::min(tiles, multiprocessors) * (cost.tile_m + cost.tile_n) * k * element_bytes;
  const double bytes_seconds = wave_bytes / std::max(1.0, device.memory_bytes_per_second);
  // Writing D, and reading C, is the same for every kernel and is all there is when k is 0.
  const double result_seconds = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                                static_cast<double>(problem.batch_count) * element_bytes *
                                (ReadsC(problem) ? 2 : 1) /
                                std::max(1.0, device.memory_bytes_per_second);
  return std::max(waves * std::max(tile_seconds / cost.math_fraction, bytes_seconds),
                  tile_seconds / cost.lone_fraction) +
         result_seconds;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_COST_MODEL_H_
