#include "kernels/families/outer_tiles.h"

#include <algorithm>

#include "kernels/families/cost_model.h"
#include "kernels/families/sum_order.h"
#include "kernels/families/why_not.h"

namespace gemm {
namespace {

constexpr int64_t kMostTiles = (int64_t{1} << 31) - 1;  // of a launch

// For the cost model, by tile: NVIDIA H200, 2026-11-30, by least squares.
struct Cost {
  double math;
  double lone;
  double result;
  double start_seconds;
};
constexpr Cost kCosts[kOuterTileCount] = {
    {0.384, 0.288, 0.37, 1.52e-6},
    {0.561, 0.463, 0.87, 2.07e-6},
    {0.611, 0.509, 1.01, 2.22e-6},
    {0.578, 0.501, 1.02, 2.25e-6},
};

// Less of a product's time, and of the start, where no row of a tile exists: its warps do nothing.
constexpr double kIdle = 0.29;
constexpr double kIdleSeconds = 0.11e-6;

int64_t DepthOf(const Problem& problem) { return ReadsAB(problem) ? problem.k : 0; }

bool RowsBeginAtSectors(const Problem& problem) {
  constexpr int kBytes = kOuterSector * static_cast<int>(sizeof(float));
  return problem.d.alignment_bytes % kBytes == 0 && problem.d.ld % kOuterSector == 0 &&
         (problem.batch_count == 1 || problem.d.batch_stride % kOuterSector == 0);
}

// What a row covers where its tiles begin up to a sector further left.
int64_t ShiftedColumns(const Problem& problem) { return problem.n + kOuterSector - 1; }

}  // namespace

std::string WhyNotOuter(const Problem& problem, const DeviceInfo& device) {
  if (std::string why = WhyNotF32(problem); !why.empty()) return why;
  const int64_t k = DepthOf(problem);
  if (k > kOuterDepth) {
    return "k is " + std::to_string(k) + ", more than " + std::to_string(kOuterDepth);
  }
  const OuterTile& largest = kOuterTiles[kOuterTileCount - 1];
  if (largest.shared_bytes(k) > static_cast<int64_t>(device.shared_bytes_per_block)) {
    return "needs more shared memory than a block of the device can have";
  }
  const OuterTile& smallest = kOuterTiles[0];
  int64_t tiles = TilesOf(problem.m, smallest.tile_m());
  if (__builtin_mul_overflow(tiles, TilesOf(ShiftedColumns(problem), smallest.tile_n()), &tiles) ||
      __builtin_mul_overflow(tiles, problem.batch_count, &tiles) || tiles > kMostTiles) {
    return "D has more than 2^31 - 1 tiles";
  }
  return {};
}

bool ShiftsOuter(const Problem& problem, const OuterTile& tile) {
  constexpr int64_t kMany = 16;
  const int64_t tiles = TilesOf(problem.n, tile.tile_n());
  return !RowsBeginAtSectors(problem) &&
         (tiles >= kMany || TilesOf(ShiftedColumns(problem), tile.tile_n()) == tiles);
}

int64_t OuterTilesAlong(const Problem& problem, const OuterTile& tile) {
  return TilesOf(ShiftsOuter(problem, tile) ? ShiftedColumns(problem) : problem.n, tile.tile_n());
}

double OuterSeconds(const Problem& problem, const DeviceInfo& device, int tile) {
  const Cost& cost = kCosts[tile];
  const OuterTile& t = kOuterTiles[tile];
  Problem covered = problem;  // the columns of whole tiles
  covered.n = OuterTilesAlong(problem, t) * t.tile_n();
  const double idle = 1 - std::min(1.0, static_cast<double>(problem.m) / t.tile_m());
  const TileCost tiles{.tile_m = t.tile_m(),
                       .tile_n = t.tile_n(),
                       .math_fraction = cost.math / (1 - kIdle * idle),
                       .lone_fraction = cost.lone / (1 - kIdle * idle),
                       .together = kOuterPlaces};
  return cost.start_seconds - kIdleSeconds * idle + ModelColdSeconds(OperandBytes(problem)) +
         ModelTileSeconds(covered, device, tiles) - ModelResultSeconds(covered, device) +
         ModelResultSeconds(problem, device) / cost.result;
}

int BestOuterTile(std::span<const Problem> problems, const DeviceInfo& device) {
  int best = 0;
  double least = 0;
  for (int tile = 0; tile < kOuterTileCount; ++tile) {
    double seconds = 0;
    for (const Problem& problem : problems) {
      if (!IsEmpty(problem)) seconds += OuterSeconds(problem, device, tile);
    }
    if (tile == 0 || seconds < least) {
      best = tile;
      least = seconds;
    }
  }
  return best;
}

}  // namespace gemm
