#include "kernels/families/dense_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "kernels/families/aligned_rows.h"
#include "kernels/families/places.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 31;
constexpr int64_t kMostColumns = 512;
constexpr int64_t kMostDepth = 8192;
constexpr int64_t kMostBatch = 65535;
constexpr int kMostPlaces = 8;
// Smaller grids have not been measured, but for products that have no larger.
constexpr int kLeastThreads = 16;  // that have results
constexpr int kLeastRows = 2;

int64_t PanelsOf(const Problem& problem, const DenseGrid& grid) {
  return TilesOf(problem.k, grid.depth);
}

bool FitRegisters(const DenseGrid& grid) {
  const int warps = DenseThreads(grid) / 32;
  return grid.places * WarpsOfAScheduler(warps) * 32 * kDenseShapes[grid.shape].registers <=
         kSchedulerRegisters;
}

// Gives the grid the stages that its place has room for.
bool FitStages(const Problem& problem, DenseGrid* grid) {
  const int64_t room = SharedBytesOfPlace(grid->places);
  for (int depth : {32, 16}) {
    grid->depth = static_cast<int>(std::min<int64_t>(depth, TilesOf(problem.k, 4) * 4));
    grid->stages = 0;
    const int64_t without = DenseSharedBytes(problem.n, problem.k, *grid);
    const int64_t stages =
        std::min({(room - without) / DenseStageBytes(grid->depth, static_cast<int>(problem.n)),
                  PanelsOf(problem, *grid), int64_t{kMostDenseStages}});
    grid->stages = static_cast<int>(std::max<int64_t>(0, stages));
    const bool enough = stages >= std::min<int64_t>(2, PanelsOf(problem, *grid));
    if (enough && DenseSharedBytes(problem.n, problem.k, *grid) <= room) return true;
  }
  return false;
}

// Turns that a warp's loads of a k-step take in shared memory. Lanes side by side have columns side
// by side; a grid of fewer than 32 has several rows in a warp.
double SharedTurns(const Problem& problem, const DenseGrid& grid) {
  const DenseShape& shape = kDenseShapes[grid.shape];
  const double columns = grid.columns;
  double rows = 1;  // of the grid, in a warp
  if (32 % grid.columns == 0) {
    rows = 32 / columns;
  } else if (grid.columns % 32 != 0) {
    rows += 31 / columns;
  }
  rows = std::min<double>(rows, grid.rows);
  // Rows so many apart begin in the same bank.
  const int64_t apart = 32 / std::gcd(problem.k, int64_t{32});
  const double turns_a = shape.rows * std::max(1.0, rows / static_cast<double>(apart));
  if (shape.width == 4) {
    return turns_a + shape.columns * std::max(1.0, std::min(columns, 32.0) / 8) / 4;
  }
  const bool wraps = grid.columns > 32 && grid.columns % 32 != 0;
  return turns_a + shape.columns * (wraps ? 1 + 31 / columns : 1);
}

// Calls `see` with each grid that fits, until it returns false.
template <typename See>
void SeeGrids(const Problem& problem, int multiprocessors, See see) {
  constexpr int64_t kMostTilings = 16;
  const bool by_16 = problem.n % 4 == 0 && HasAlignedRows(problem.b, problem.batch_count) &&
                     HasAlignedRows(problem.d, problem.batch_count);
  for (int s = 0; s < static_cast<int>(std::size(kDenseShapes)); ++s) {
    const DenseShape& shape = kDenseShapes[s];
    if (shape.width == 4 && !by_16) continue;
    DenseGrid grid{.shape = s,
                   .rows = 0,
                   .columns = static_cast<int>(TilesOf(problem.n, shape.columns)),
                   .depth = 0,
                   .stages = 0,
                   .places = 0};
    const int64_t most_rows = shape.most_threads / grid.columns;
    const int64_t rows_in_all = TilesOf(problem.m, shape.rows);
    if (most_rows == 0) continue;
    const int64_t fewest = TilesOf(rows_in_all, most_rows);
    for (int64_t tiles = fewest; tiles < fewest + kMostTilings; ++tiles) {
      const auto rows = static_cast<int>(TilesOf(rows_in_all, tiles));
      if (rows == grid.rows) continue;
      grid.rows = rows;
      const bool small = grid.rows * grid.columns < kLeastThreads || grid.rows < kLeastRows;
      if (small && tiles > fewest) break;
      const int64_t blocks = TilesOf(DenseBlocks(problem, grid), std::max(1, multiprocessors));
      for (int places = static_cast<int>(std::min<int64_t>(kMostPlaces, blocks)); places >= 1;
           --places) {
        grid.places = places;
        if (FitRegisters(grid) && FitStages(problem, &grid) && !see(grid)) return;
      }
    }
  }
}

bool AnyGridFits(const Problem& problem, int multiprocessors) {
  bool any = false;
  SeeGrids(problem, multiprocessors, [&](const DenseGrid& /*grid*/) {
    any = true;
    return false;
  });
  return any;
}

}  // namespace

int DenseThreads(const DenseGrid& grid) { return (grid.rows * grid.columns + 31) / 32 * 32; }

int DenseTileRows(const DenseGrid& grid) { return grid.rows * kDenseShapes[grid.shape].rows; }

int64_t DenseBlocks(const Problem& problem, const DenseGrid& grid) {
  return TilesOf(problem.m, DenseTileRows(grid)) * problem.batch_count;
}

int64_t DenseSharedBytes(int64_t n, int64_t k, const DenseGrid& grid) {
  const int64_t rows = DenseTileRows(grid);
  // Behind A, what threads load of columns that do not exist and behind the last row of a stage.
  const int64_t behind = 4 * (n + 64);
  const int64_t operands = int64_t{grid.stages} * DenseStageBytes(grid.depth, static_cast<int>(n)) +
                           4 * rows * k + 16 + behind;
  const int64_t results = 4 * rows * n + 16;
  return kDenseBarrierBytes + std::max(operands, results);
}

std::string WhyNotDense(const Problem& problem, int multiprocessors) {
  if (!ReadsAB(problem)) return "does not read A and B";
  if (problem.a.transposed || problem.b.transposed) return "A or B is transposed";
  if (problem.a.ld != problem.k || problem.b.ld != problem.n || problem.d.ld != problem.n ||
      (ReadsC(problem) && problem.c.ld != problem.n)) {
    return "a matrix has gaps between its rows";
  }
  if (problem.m > kMostRows) return "m is more than " + std::to_string(kMostRows);
  if (problem.n > kMostColumns) return "n is more than " + std::to_string(kMostColumns);
  if (problem.k > kMostDepth) return "k is more than " + std::to_string(kMostDepth);
  if (problem.batch_count > kMostBatch) {
    return "a batch of more than " + std::to_string(kMostBatch);
  }
  if (!AnyGridFits(problem, multiprocessors)) {
    return "no rows of A and of B fit into shared memory";
  }
  return {};
}

double DenseSeconds(const Problem& problem, int multiprocessors, const DenseGrid& grid) {
  // NVIDIA H200, 2026-11-30: by least squares on 1300 times of 18 batches, 7 % off. What a shape of
  // width 4 takes is scaled by what the order of its multiply-adds gained since (DenseStep).
  constexpr double kClocksPerSecond = 1.98e9;
  constexpr double kStartSeconds = 2.2e-6;
  constexpr double kBlockSeconds = 0.9e-6;
  constexpr double kPanelSeconds = 0.11e-6;
  constexpr double kBytesPerSecond = 6.5e12;
  constexpr double kAlone = 0.24;  // warps' work for which a scheduler waits in every k-step
  constexpr double kTurn = 0.52;   // clocks of a multiprocessor

  const DenseShape& shape = kDenseShapes[grid.shape];
  const auto k = static_cast<double>(problem.k);
  const int warps = DenseThreads(grid) / 32;
  const double turns = SharedTurns(problem, grid);
  const auto seconds_of = [&](int together) {
    const double issuing =
        shape.cycles * shape.rows * shape.columns * (WarpsOfAScheduler(together * warps) + kAlone);
    const double loading = kTurn * turns * together * warps;
    return k * std::hypot(issuing, loading) / kClocksPerSecond + kBlockSeconds +
           static_cast<double>(PanelsOf(problem, grid)) * kPanelSeconds;
  };
  const double elements = static_cast<double>(problem.m) * k + k * static_cast<double>(problem.n) +
                          static_cast<double>(problem.m) * static_cast<double>(problem.n);
  return kStartSeconds +
         RoundsSeconds(DenseBlocks(problem, grid), multiprocessors, grid.places, seconds_of) +
         sizeof(float) * elements * static_cast<double>(problem.batch_count) / kBytesPerSecond;
}

DenseGrid BestDenseGrid(const Problem& problem, int multiprocessors) {
  return Fastest<DenseGrid>(
      [&](auto see) { SeeGrids(problem, multiprocessors, see); },
      [&](const DenseGrid& grid) { return DenseSeconds(problem, multiprocessors, grid); });
}

}  // namespace gemm
