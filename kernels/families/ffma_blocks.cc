#include "kernels/families/ffma_blocks.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// Multiply-adds of a multiprocessor in about a millisecond. A block works no longer, where its
// tiles allow it: small products on a stream of higher priority wait for blocks to end.
constexpr double kMostFmasOfABlock = 2.2e8;

// Tiles that a block takes one after the other, at the most.
int MostTilesOfABlock(const FfmaShape& shape, int64_t k) {
  const double tile_fmas = static_cast<double>(shape.tile_m()) * shape.tile_n() * shape.blocks *
                           static_cast<double>(std::max<int64_t>(1, k));
  return static_cast<int>(std::clamp(kMostFmasOfABlock / tile_fmas, 1.0, 1e6));
}

}  // namespace

int BlocksInTurns(int work, int places, int most) {
  if (TilesOf(work, most) <= places) return std::min(work, places);
  int64_t best = 1;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t each = most; each >= 1; --each) {
    const int64_t tile_times = each * TilesOf(TilesOf(work, each), places);
    if (tile_times >= least) continue;
    least = tile_times;
    best = each;
  }
  return static_cast<int>(TilesOf(work, best));
}

int DealTiles(const FfmaShape& shape, int multiprocessors, FfmaGemm* g) {
  if (g->quarters > 1) multiprocessors = std::min(multiprocessors, kMostFoldingBlocks / 3);
  const int places = multiprocessors * shape.blocks;
  if (g->cut_matrices > 0) {
    g->in_turns = places;
    g->whole_each = g->work / places;
    g->whole_more = g->work % places;
    return places;
  }
  g->in_turns = g->quarters > 1 ? std::min(g->work, places)
                                : BlocksInTurns(g->work, places, MostTilesOfABlock(shape, g->p.k));
  const int left_over = g->work % places;
  if (shape.blocks != 2 || g->in_turns != places || left_over == 0 || left_over > multiprocessors) {
    return g->in_turns;
  }
  constexpr double kLoneFmas = 0.79 * 128;  // a clock
  g->late_clocks = static_cast<int>(0.5 * shape.tile_m() * shape.tile_n() *
                                    static_cast<double>(g->p.k) / kLoneFmas);
  return places + left_over;
}

int64_t MostTilesThatFold(const FfmaShape& shape, int64_t k) {
  return int64_t{kMostFoldingBlocks} / 3 * shape.blocks * MostTilesOfABlock(shape, k);
}

double QuarteredRounds(const FfmaShape& shape, int64_t whole, int64_t cut) {
  constexpr double kLone = 0.57;  // a tile a multiprocessor: NVIDIA H200, 2026-11-30
  const int64_t places = int64_t{kMostFoldingBlocks} / 3 * shape.blocks;
  const int64_t each = whole / places;
  const int64_t more = whole % places;
  if (cut == 0) {
    const double last = more == 0 ? 0 : more <= places / shape.blocks ? kLone : 1;
    return static_cast<double>(each) + last;
  }
  // Pieces are dealt out from place `more` on, and those before it come last.
  const int64_t pieces = kQuarters * cut;
  const int64_t behind = kQuarters * each + TilesOf(pieces, places);
  const int64_t before =
      more == 0
          ? 0
          : kQuarters * (each + 1) + TilesOf(std::max<int64_t>(0, pieces - places + more), places);
  return static_cast<double>(std::max(behind, before)) / kQuarters;
}

int64_t MatricesToCut(const FfmaShape& shape, int64_t matrices, int64_t tiles, int64_t results,
                      int64_t k) {
  // NVIDIA H200, 2026-11-30.
  constexpr double kFmasPerSecond = 2.4e13;
  constexpr double kSecondPassSeconds = 1.4e-6;
  constexpr double kBytesPerSecond = 2e12;
  const int64_t places = int64_t{kMostFoldingBlocks} / 3 * shape.blocks;
  const double round_seconds =
      static_cast<double>(places * shape.tile_m() * shape.tile_n() * k) / kFmasPerSecond;
  const double pass_seconds = static_cast<double>(sizeof(float) * (kQuarters + 1)) *
                              static_cast<double>(results) / kBytesPerSecond;
  int64_t best = 0;
  double least = QuarteredRounds(shape, matrices * tiles, 0) * round_seconds;
  for (int64_t cut = 1; cut <= matrices && cut * tiles <= places / 2; ++cut) {
    const double seconds =
        QuarteredRounds(shape, (matrices - cut) * tiles, cut * tiles) * round_seconds +
        kSecondPassSeconds + static_cast<double>(cut) * pass_seconds;
    if (seconds >= least) continue;
    best = cut;
    least = seconds;
  }
  return best;
}

bool Crowds(const FfmaShape& shape, int multiprocessors, int blocks) {
  if (shape.slices == 1) return blocks <= multiprocessors * (shape.blocks - 1);
  const int left = blocks % (multiprocessors * shape.blocks);
  return left > 0 && left <= multiprocessors * (shape.blocks - 1) + multiprocessors / 4;
}

int StreamKBlocks(const FfmaShape& shape, const FfmaGemm& g) {
  constexpr auto kWorkers = static_cast<int>(StreamKOrder::kWorkers);
  const int blocks = BlocksInTurns(g.work, kWorkers, MostTilesOfABlock(shape, g.p.k));
  return blocks <= kWorkers ? kWorkers : blocks + kWorkers;
}

}  // namespace gemm
