#include "kernels/families/small_shapes.h"

#include <algorithm>
#include <cmath>

#include "kernels/families/aligned_rows.h"
#include "kernels/families/cost_model.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// For the cost model, by shape: NVIDIA H200, 2026-11-30. Copies are hidden where they are of 16
// bytes. A last stage that is not whole has elements to fill.
struct Cost {
  double math;
  double lone;
  double begin;
  double start_seconds;
  double copy_4_seconds;     // of an element, copied by itself
  double copy_last_seconds;  // of an element of a stage that is not whole
  double ragged;             // to be added to writing D, in times of it, where rows are not aligned
};
constexpr Cost kCosts[kSmallShapeCount] = {
    {0.331, 0.205, 43, 1.69e-6, 0.039e-9, 0.11e-9, 0.1},
    {0.443, 0.305, 17, 2.05e-6, 0.051e-9, 0.072e-9, 1.8},
    {0.593, 0.404, 2, 2.26e-6, 0.034e-9, 0.24e-9, 1.4},
    {0.583, 0.444, 42, 2.45e-6, 0.031e-9, 0.085e-9, 6.0},
};

// Of all shapes: operands that are more than stays in the caches from launch to launch are waited
// for, and of short sums less is to be brought before the first of them begins.
constexpr double kColdSeconds = 0.21e-6;  // of so many bytes, and more
constexpr double kColdBytes = 0.8e6;
constexpr double kShortSeconds = 0.22e-6;  // less; the less, the nearer it is to so many products
constexpr double kShortProducts = 64;

// Whether rows come 16 bytes at a time: they lie along the right index, and aligned.
bool By16(const MatrixLayout& layout, bool along, int64_t batch_count) {
  return along && HasAlignedRows(layout, batch_count);
}

// Products of a tile whose stages are not whole.
int64_t LastProducts(const Problem& problem, const SmallShape& s) {
  const int64_t k = problem.k;
  const int64_t depth = s.depth / s.slices;
  const int64_t length =
      s.slices == 1 ? k : ChunkLength(NumericsClass::kQuarters, problem) / s.slices;
  const int64_t stages = TilesOf(std::min(k, length), depth);
  const int64_t in_last_slice = std::max<int64_t>(0, k - (s.slices - 1) * length);
  return (stages - std::min(stages, in_last_slice / depth)) * depth * s.slices;
}

double CopySeconds(const Problem& problem, const SmallShape& s, const Cost& cost) {
  if (!ReadsAB(problem)) return 0;
  const int64_t batch = problem.batch_count;
  const int by_4 = (By16(problem.a, problem.a.transposed, batch) ? 0 : s.tile_m()) +
                   (By16(problem.b, !problem.b.transposed, batch) ? 0 : s.tile_n());
  return static_cast<double>(problem.k) * by_4 * cost.copy_4_seconds +
         static_cast<double>(LastProducts(problem, s)) * (s.tile_m() + s.tile_n()) *
             cost.copy_last_seconds;
}

}  // namespace

int64_t SmallTilesOf(const Problem& problem, const SmallShape& shape) {
  if (IsEmpty(problem)) return 0;
  int64_t tiles = TilesOf(problem.m, shape.tile_m());
  if (__builtin_mul_overflow(tiles, TilesOf(problem.n, shape.tile_n()), &tiles) ||
      __builtin_mul_overflow(tiles, problem.batch_count, &tiles)) {
    return kMostSmallTiles + 1;
  }
  return std::min(tiles, kMostSmallTiles + 1);
}

double SmallSeconds(std::span<const Problem> problems, const DeviceInfo& device, int shape) {
  const SmallShape& s = kSmallShapes[shape];
  const Cost& cost = kCosts[shape];
  const double multiprocessors = std::max(1, device.multiprocessors);
  double seconds = 0;  // of all tiles on one multiprocessor
  double longest = 0;
  double tiles = 0;
  double results = 0;
  double bytes = 0;  // read and written, of all
  double longest_sum = 0;
  for (const Problem& problem : problems) {
    const auto here = static_cast<double>(SmallTilesOf(problem, s));
    if (here == 0) continue;
    const TileCost tile{
        .tile_m = s.tile_m(), .tile_n = s.tile_n(), .copy_seconds = CopySeconds(problem, s, cost)};
    const auto k = static_cast<double>(ReadsAB(problem) ? problem.k : 0);
    const double memory = multiprocessors * (s.tile_m() + s.tile_n()) * k * sizeof(float) /
                          std::max(1.0, device.memory_bytes_per_second);
    tiles += here;
    seconds += here * std::max(ModelTile(problem, device, tile, cost.math, k + cost.begin), memory);
    longest = std::max(longest, ModelTile(problem, device, tile, cost.lone, k));
    results += ModelResultSeconds(problem, device) *
               (By16(problem.d, true, problem.batch_count) ? 1 : 1 + cost.ragged);
    const auto m = static_cast<double>(problem.m);
    const auto n = static_cast<double>(problem.n);
    bytes += sizeof(float) * static_cast<double>(problem.batch_count) * (m * k + n * k + m * n);
    longest_sum = std::max(longest_sum, k);
  }
  if (tiles == 0) return 0;
  // The last wave is as long as a full one.
  const double waves = std::ceil(tiles / multiprocessors);
  return cost.start_seconds + std::max(longest, seconds / tiles * waves) + results +
         kColdSeconds * std::min(1.0, bytes / kColdBytes) -
         kShortSeconds * std::max(0.0, 1 - longest_sum / kShortProducts);
}

int BestSmallShape(std::span<const Problem> problems, const DeviceInfo& device, int first,
                   int count) {
  int best = first;
  double least = 0;
  for (int shape = first; shape < first + count; ++shape) {
    int64_t tiles = 0;
    for (const Problem& problem : problems) {
      tiles = std::max(tiles, SmallTilesOf(problem, kSmallShapes[shape]));
    }
    if (tiles > kMostSmallTiles) continue;
    const double seconds = SmallSeconds(problems, device, shape);
    if (least == 0 || seconds < least) {
      best = shape;
      least = seconds;
    }
  }
  return best;
}

double SmallGridSeconds(const Problem& problem, const DeviceInfo& device, const SmallGrid& grid) {
  // NVIDIA H200, 2026-11-30. A warp alone reaches a small part of what several do together.
  constexpr double kStartSeconds = 2.2e-6;
  constexpr double kMath = 0.75;
  constexpr double kHalf = 3.5;  // warps that reach half of it
  constexpr double kBegin = 8;
  constexpr int kMostWarps = SmallGrid::kMostThreads / 32;
  const double multiprocessors = std::max(1, device.multiprocessors);
  const auto tiles = static_cast<double>(TilesOf(problem.m, grid.tile_m()) *
                                         TilesOf(problem.n, grid.tile_n()) * problem.batch_count);
  const double waves = std::ceil(tiles / multiprocessors);
  const int tile_warps = grid.threads() / 32;
  const auto places = std::max<double>(
      1, std::min<size_t>(kMostWarps / tile_warps,
                          device.shared_bytes_per_multiprocessor / (grid.shared_bytes() + 1024)));
  const double warps = tile_warps * std::min(waves, places);
  const TileCost tile{.tile_m = grid.tile_m(), .tile_n = grid.tile_n()};
  // Lanes without results take their turns too, and large blocks wait longer for their last warp.
  const double lanes = static_cast<double>(grid.threads()) / (grid.rows * grid.columns);
  const double waiting = tile_warps > 10 ? 1.05 : 1;
  return kStartSeconds + ModelResultSeconds(problem, device) +
         lanes * waiting * waves *
             ModelTile(problem, device, tile, kMath * warps / (warps + kHalf),
                       static_cast<double>(problem.k) + kBegin);
}

SmallGrid BestSmallGrid(const Problem& problem, const DeviceInfo& device) {
  constexpr int64_t kMost = 512;  // rows and columns
  constexpr int64_t kMostBatch = 65535;
  SmallGrid best;
  const int64_t batch = problem.batch_count;
  if (!ReadsAB(problem) || IsEmpty(problem) || problem.m > kMost || problem.n > kMost ||
      problem.n % 4 != 0 || problem.k % 4 != 0 || batch > kMostBatch ||
      !By16(problem.a, !problem.a.transposed, batch) ||
      !By16(problem.b, !problem.b.transposed, batch) || !By16(problem.d, true, batch) ||
      (ReadsC(problem) && !By16(problem.c, true, batch))) {
    return best;
  }
  // Fewer results leave warps alone on their multiprocessors, which is what shapes are for.
  constexpr int kLeastResults = 64 * 64;  // for each
  if (static_cast<double>(problem.m * problem.n) * static_cast<double>(batch) <
      static_cast<double>(kLeastResults) * device.multiprocessors) {
    return best;
  }
  constexpr int kMostTiles = 8;      // each way
  constexpr int kLeastThreads = 28;  // smaller grids have not been measured
  double least = 0;
  // Of equals the one with the longest rows of B.
  for (int tiles_n = 1; tiles_n <= kMostTiles; ++tiles_n) {
    for (int tiles_m = 1; tiles_m <= kMostTiles; ++tiles_m) {
      const auto threads_for = [](int64_t size, int tiles) {
        return static_cast<int>(TilesOf(TilesOf(size, tiles), SmallGrid::kSide));
      };
      const SmallGrid grid{threads_for(problem.m, tiles_m), threads_for(problem.n, tiles_n)};
      if (grid.rows * grid.columns < kLeastThreads || grid.threads() > SmallGrid::kMostThreads ||
          static_cast<size_t>(grid.shared_bytes()) > device.shared_bytes_per_block) {
        continue;
      }
      const double seconds = SmallGridSeconds(problem, device, grid);
      if (best.rows == 0 || seconds < least) {
        best = grid;
        least = seconds;
      }
    }
  }
  return best;
}

}  // namespace gemm
