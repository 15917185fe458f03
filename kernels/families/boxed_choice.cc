#include "kernels/families/boxed_choice.h"

#include <algorithm>
#include <iterator>

#include "kernels/families/aligned_rows.h"
#include "kernels/families/places.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

constexpr int kMostPlaces = 8;

// In shared memory, before the ring and behind it: see boxed.cu.
constexpr int kBesideRing = 2048;

constexpr int64_t kMostWork = int64_t{1} << 30;
constexpr int64_t kMostSide = (int64_t{1} << 31) - 1024;

// Calls `see` with each block that fits.
template <typename See>
void SeeBlocks(const Problem& problem, int multiprocessors, See see) {
  const int64_t panels = TilesOf(problem.k, kBoxedSide);
  for (int s = 0; s < static_cast<int>(std::size(kBoxedShapes)); ++s) {
    int64_t rows_before = 0;
    for (int warps = 1; warps <= kMostBoxedWarps; ++warps) {
      BoxedBlock block{.shape = s, .warps = warps, .stages = 0, .places = 0};
      // More warps than rows need do nothing.
      const int64_t rows = TilesOf(problem.m, block.rows());
      if (rows == rows_before) continue;
      rows_before = rows;
      const int64_t each = TilesOf(BoxedTiles(problem, block), std::max(1, multiprocessors));
      for (int places = static_cast<int>(std::min<int64_t>(kMostPlaces, each)); places >= 1;
           --places) {
        if (WarpsOfAScheduler(places * warps) * 32 * kBoxedShapes[s].registers >
            kSchedulerRegisters) {
          continue;
        }
        block.places = places;
        const int64_t fit = (BoxedSharedBytes(block) - kBesideRing) / BoxedStageBytes(block);
        const int64_t needed = panels * TilesOf(each, places);
        block.stages = static_cast<int>(std::min({fit, int64_t{kMostBoxedStages}, needed}));
        if (block.stages >= std::min<int64_t>(2, needed)) see(block);
      }
    }
  }
}

// At which it is written. Warps store 128 bytes at a time: where rows of D begin within lines,
// these are parts of two.
double ResultBytesPerSecond(const Problem& problem) {
  const auto begin_at = [&problem](int64_t bytes) {
    const int64_t elements = bytes / static_cast<int64_t>(sizeof(float));
    return problem.d.alignment_bytes % bytes == 0 && problem.d.ld % elements == 0 &&
           (problem.batch_count == 1 || problem.d.batch_stride % elements == 0);
  };
  return begin_at(128) ? 4.1e12 : begin_at(64) ? 3e12 : 2.05e12;
}

}  // namespace

int64_t BoxedTiles(const Problem& problem, const BoxedBlock& block) {
  return TilesOf(problem.m, block.rows()) * TilesOf(problem.n, kBoxedShapes[block.shape].tile_n()) *
         problem.batch_count;
}

int BoxedStageBytes(const BoxedBlock& block) {
  return (block.warps + kBoxedShapes[block.shape].boxes()) * kBoxedBytes;
}

int BoxedSharedBytes(const BoxedBlock& block) { return SharedBytesOfPlace(block.places); }

std::string WhyNotBoxed(const Problem& problem) {
  if (!ReadsAB(problem)) return "does not read A and B";
  if (ReadsC(problem)) return "reads C";
  if (!HasBoxableRows(problem.a, problem.batch_count) ||
      !HasBoxableRows(problem.b, problem.batch_count) ||
      !HasAlignedRows(problem.d, problem.batch_count) || problem.n % 4 != 0) {
    return "rows of a matrix, or n, are not multiples of 16 bytes";
  }
  if (problem.m > kMostSide || problem.n > kMostSide || problem.k > kMostSide) {
    return "a side is more than " + std::to_string(kMostSide);
  }
  const BoxedBlock smallest{.shape = 0, .warps = 1, .stages = 1, .places = 1};
  if (problem.batch_count > kMostWork ||
      TilesOf(problem.m, kBoxedSide) > kMostWork / problem.batch_count ||
      BoxedTiles(problem, smallest) > kMostWork) {
    return "has more than " + std::to_string(kMostWork) + " tiles";
  }
  return {};
}

double BoxedSeconds(const Problem& problem, int multiprocessors, const BoxedBlock& block) {
  // NVIDIA H200, 2026-11-30: by random search for the least squares of logarithms, on 172 times of
  // 13 products, 8 % off; what a stage takes with both operands turned, by one product; the start
  // and writing D, on which no choice of a block depends, by least squares on 171 products.
  constexpr double kClocksPerSecond = 1.98e9;
  constexpr double kStartSeconds = 0.58e-6;
  constexpr double kTileSeconds = 1.66e-6;
  // Of a stage, by how many operands are turned.
  constexpr double kPanelSeconds[] = {0.1e-6, 0.32e-6, 1.3e-6};
  constexpr double kBoxSeconds = 0.04e-6;
  constexpr double kBytesPerSecond = 11.9e12;

  const BoxedShape& shape = kBoxedShapes[block.shape];
  const auto m = static_cast<double>(problem.m);
  const auto n = static_cast<double>(problem.n);
  const auto k = static_cast<double>(problem.k);
  const auto panels = static_cast<double>(TilesOf(problem.k, kBoxedSide));
  const int turned = (problem.a.transposed ? 0 : 1) + (problem.b.transposed ? 1 : 0);
  const auto seconds_of = [&](int together) {
    return k * shape.cycles * 8 * shape.columns * WarpsOfAScheduler(together * block.warps) /
               kClocksPerSecond +
           kTileSeconds +
           panels *
               (kPanelSeconds[turned] + kBoxSeconds * together * (block.warps + shape.boxes()));
  };
  return kStartSeconds +
         RoundsSeconds(BoxedTiles(problem, block), multiprocessors, block.places, seconds_of) +
         sizeof(float) * static_cast<double>(problem.batch_count) *
             ((m * k + k * n) / kBytesPerSecond + m * n / ResultBytesPerSecond(problem));
}

BoxedBlock BestBoxedBlock(const Problem& problem, int multiprocessors) {
  return Fastest<BoxedBlock>(
      [&](auto see) { SeeBlocks(problem, multiprocessors, see); },
      [&](const BoxedBlock& block) { return BoxedSeconds(problem, multiprocessors, block); });
}

}  // namespace gemm
