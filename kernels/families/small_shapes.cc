#include "kernels/families/small_shapes.h"

#include <algorithm>
#include <cmath>

#include "kernels/families/cost_model.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// Fractions for the cost model, by shape: NVIDIA H200, 2026-11-30. "Math" is what batches of 256 of
// 256 cubed reach, and for quarters of 64 of 384 cubed; "lone" is a tile's time for each product.
struct Fractions {
  double math;
  double lone;
};
constexpr Fractions kFractions[kSmallShapeCount] = {
    {0.25, 0.18},
    {0.35, 0.24},
    {0.53, 0.38},
    {0.41, 0.39},
};

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
  const TileCost cost{s.tile_m(), s.tile_n(), kFractions[shape].math, kFractions[shape].lone};
  const double multiprocessors = std::max(1, device.multiprocessors);
  double seconds = 0;
  double longest = 0;
  double tiles = 0;
  for (const Problem& problem : problems) {
    Problem one = problem;
    one.m = s.tile_m();
    one.n = s.tile_n();
    const double here = static_cast<double>(SmallTilesOf(problem, s));
    if (here == 0) continue;
    // A tile takes at least as long as 32 products.
    one.k = std::max<int64_t>(one.k, 32);
    tiles += here;
    one.batch_count = device.multiprocessors;
    seconds += ModelTileSeconds(one, device, {cost.tile_m, cost.tile_n, cost.math_fraction, 1e9}) *
               here / multiprocessors;
    longest = std::max(longest, ModelTileSeconds(one, device, cost));
  }
  // The last wave is as long as a full one.
  const double waves = tiles / multiprocessors;
  return waves > 0 ? std::max(longest, seconds * std::ceil(waves) / waves) : 0;
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

}  // namespace gemm
