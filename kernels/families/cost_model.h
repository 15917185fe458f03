// How long a tiled kernel should take, from the device's rates and a few measured numbers a
// configuration. It ranks configurations of all families, and carries measured times over to
// problems of other sizes (select.h), so it counts whole seconds, a kernel's start included.
//
// A wave is one tile on every multiprocessor. Tiles that share a multiprocessor share its
// arithmetic, so counting them as waves that follow each other costs the same, and a last wave that
// fills half the device still takes a whole wave: that is what makes large tiles lose on small
// problems. What is left over after full rounds may find two places on one multiprocessor, and does
// the more often the more is left, if nothing keeps it apart: it then takes as long as two. A wave
// takes the larger of
//
//   math   the tile's multiply-adds, edges of D that fall outside included, at the fraction of the
//          multiprocessor's peak that the configuration reaches on large products. To begin and to
//          end a tile takes as long as some more products of its sum: that is what makes tiles with
//          many results a thread lose where k is small;
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

// Fitted by least squares to recorded times, a few by hand: kernels/stories/choice.md says which.
struct TileCost {
  int tile_m = 1;
  int tile_n = 1;
  // Fractions of a multiprocessor's peak multiply-add rate.
  double math_fraction = 1;    // with as many tiles as it takes
  double lone_fraction = 1;    // with one
  double begin = 0;            // beginning and ending a tile, in products of its sum
  double copy_seconds = 0;     // of a tile: copying that no arithmetic hides
  double result_fraction = 1;  // of the memory's rate: writing D
  int together = 1;            // tiles on a multiprocessor that it takes to reach math_fraction
  double paired = 0.5;  // how often a wave that is left over finds two places on one multiprocessor
};

// Of one tile that runs at a fraction of its multiprocessor's peak.
inline double ModelTile(const Problem& problem, const DeviceInfo& device, const TileCost& cost,
                        double fraction, double products) {
  const double peak =
      problem.dtype == DType::kF32 ? device.f32_flops_per_second : device.f64_flops_per_second;
  const double flops = 2.0 * cost.tile_m * cost.tile_n * products;
  return flops * std::max(1, device.multiprocessors) / (std::max(1.0, peak) * fraction) +
         cost.copy_seconds;
}

// Of `count` tiles that share a multiprocessor.
inline double ModelTogether(const Problem& problem, const DeviceInfo& device, const TileCost& cost,
                            double count, double products) {
  if (count <= 0) return 0;
  const double share = cost.together > 1 ? (count - 1) / (cost.together - 1) : 1;
  const double fraction = cost.lone_fraction + share * (cost.math_fraction - cost.lone_fraction);
  return count * ModelTile(problem, device, cost, fraction, products);
}

// Of all tiles, in rounds of what multiprocessors take at a time.
inline double ModelRounds(const Problem& problem, const DeviceInfo& device, const TileCost& cost,
                          double tiles, double products) {
  const double multiprocessors = std::max(1, device.multiprocessors);
  const double rounds = std::floor(tiles / (multiprocessors * cost.together));
  const double left = (tiles - rounds * multiprocessors * cost.together) / multiprocessors;
  const auto at = [&](double count) {
    return ModelTogether(problem, device, cost, count, products);
  };
  double seconds = rounds * at(cost.together) + at(std::ceil(left));
  if (rounds > 0 && left > 0 && std::ceil(left) < cost.together) {
    const double paired = std::min(1.0, cost.paired * (left - std::ceil(left) + 1));
    seconds += paired * (at(std::ceil(left) + 1) - at(std::ceil(left)));
  }
  return seconds;
}

// Writing D, and reading C: all there is when k is 0.
inline double ModelResultSeconds(const Problem& problem, const DeviceInfo& device) {
  return static_cast<double>(problem.m) * static_cast<double>(problem.n) *
         static_cast<double>(problem.batch_count) * static_cast<double>(SizeOf(problem.dtype)) *
         (ReadsC(problem) ? 2 : 1) / std::max(1.0, device.memory_bytes_per_second);
}

// Waiting for operands that are more than stays in the caches from launch to launch: what kernels
// of small products do not hide. NVIDIA H200, 2026-11-30.
inline double ModelColdSeconds(double operand_bytes) {
  constexpr double kSeconds = 0.4e-6;
  constexpr double kBytes = 0.8e6;
  return kSeconds * std::min(1.0, operand_bytes / kBytes);
}

inline double OperandBytes(const Problem& problem) {
  if (!ReadsAB(problem)) return 0;
  return static_cast<double>(problem.m + problem.n) * static_cast<double>(problem.k) *
         static_cast<double>(problem.batch_count) * static_cast<double>(SizeOf(problem.dtype));
}

// Of a kernel, but for its start and for what else the family has to do.
inline double ModelTileSeconds(const Problem& problem, const DeviceInfo& device,
                               const TileCost& cost) {
  const double element_bytes = static_cast<double>(SizeOf(problem.dtype));
  const double multiprocessors = std::max(1, device.multiprocessors);
  const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
  const double tiles = std::ceil(static_cast<double>(problem.m) / cost.tile_m) *
                       std::ceil(static_cast<double>(problem.n) / cost.tile_n) *
                       static_cast<double>(problem.batch_count);
  const double waves = std::ceil(tiles / multiprocessors);
  const double math_seconds = ModelRounds(problem, device, cost, tiles, k + cost.begin);
  const double bytes_seconds = waves * std::min(tiles, multiprocessors) *
                               (cost.tile_m + cost.tile_n) * k * element_bytes /
                               std::max(1.0, device.memory_bytes_per_second);
  return std::max({math_seconds, bytes_seconds,
                   ModelTile(problem, device, cost, cost.lone_fraction, k)}) +
         ModelResultSeconds(problem, device) / cost.result_fraction;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_COST_MODEL_H_
