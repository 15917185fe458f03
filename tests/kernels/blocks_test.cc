// Which block, grid or tile a family takes: that it covers the result, fits the device, and that
// the checks reach each.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "kernels/bench/literal_devices.h"
#include "kernels/bench/shapes.h"
#include "kernels/families/boxed_choice.h"
#include "kernels/families/dense_choice.h"
#include "kernels/families/families.h"
#include "kernels/families/outer_tiles.h"
#include "kernels/families/places.h"
#include "kernels/families/small_shapes.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// A block that goes on needs a stage beside the one that it reads, and none may ask for more than
// its place has.
TEST(BoxedBlocks, HaveStagesAndRoom) {
  int in_turns = 0;
  std::set<int> shapes;
  for (const CheckCase& check_case : CheckCases(DType::kF32, CaseSet::kFull)) {
    const Problem& problem = check_case.problem;
    if (!WhyNotBoxed(problem).empty()) continue;
    const BoxedBlock block = BestBoxedBlock(problem, 132);
    ASSERT_GE(block.shape, 0) << check_case.name;
    shapes.insert(block.shape);
    const int64_t each = TilesOf(BoxedTiles(problem, block), int64_t{132} * block.places);
    if (each > 1) ++in_turns;
    EXPECT_GE(block.stages, std::min<int64_t>(2, each * TilesOf(problem.k, kBoxedSide)))
        << check_case.name;
    EXPECT_LE(block.stages * BoxedStageBytes(block) + 2048, BoxedSharedBytes(block))
        << check_case.name;
    EXPECT_LE(block.places * (BoxedSharedBytes(block) + 1024), 228 * 1024) << check_case.name;
    EXPECT_LE(block.warps * 32, kBoxedShapes[block.shape].most_threads) << check_case.name;
  }
  EXPECT_GE(in_turns, 8);
  EXPECT_EQ(shapes.size(), std::size(kBoxedShapes));
}

TEST(SmallGrids, AreReachedByTheChecks) {
  for (CaseSet set : {CaseSet::kQuick, CaseSet::kFull}) {
    int on_grids = 0;
    for (const CheckCase& check_case : CheckCases(DType::kF32, set)) {
      const Plan plan = SmallFamily().MakePlan({&check_case.problem, 1}, H200(), 0);
      if (plan.variant >= kSmallShapeCount) ++on_grids;
    }
    EXPECT_GE(on_grids, set == CaseSet::kQuick ? 2 : 8);
  }
}

TEST(SmallGrids, TakeAlignedOperandsAsTheyLie) {
  const Problem aligned = [] {
    Problem problem = DenseProblem(DType::kF32, 100, 200, 60, 300);
    for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
      layout->alignment_bytes = 16;
    }
    return problem;
  }();
  const SmallGrid grid = BestSmallGrid(aligned, H200());
  EXPECT_GT(grid.rows * grid.columns, 0);
  EXPECT_LE(grid.threads(), SmallGrid::kMostThreads);
  EXPECT_LE(static_cast<size_t>(grid.shared_bytes()), H200().shared_bytes_per_block);
  EXPECT_EQ(SmallGrid::Of(grid.variant()).rows, grid.rows);
  EXPECT_EQ(SmallGrid::Of(grid.variant()).columns, grid.columns);
  const auto without = [&](auto change) {
    Problem problem = aligned;
    change(problem);
    return BestSmallGrid(problem, H200()).rows;
  };
  EXPECT_EQ(without([](Problem& p) { p.a.alignment_bytes = 8; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.a.transposed = true; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.a.ld += 2; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.b.transposed = true; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.b.batch_stride += 1; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.d.ld += 1; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.n -= 1; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.k -= 1; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.alpha = 0; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.batch_count = 65536; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.batch_count = 3; }), 0);
  // C counts where it is read, and m may be odd.
  EXPECT_GT(without([](Problem& p) { p.c.ld += 1; }), 0);
  EXPECT_EQ(without([](Problem& p) { p.beta = 1, p.c.ld += 1; }), 0);
  EXPECT_GT(without([](Problem& p) { p.m -= 1; }), 0);
}

TEST(DenseGrids, FitAndCoverD) {
  int by_16 = 0;
  int checked = 0;
  const auto expect_fit = [&](const Problem& problem) {
    if (!WhyNotDense(problem, 132).empty()) return;
    ++checked;
    const DenseGrid grid = BestDenseGrid(problem, 132);
    const DenseShape& shape = kDenseShapes[grid.shape];
    by_16 += shape.width == 4 ? 1 : 0;
    EXPECT_GE(grid.columns * shape.columns, problem.n);
    EXPECT_LT((grid.columns - 1) * shape.columns, problem.n);
    EXPECT_GE(grid.rows, 1);
    EXPECT_LE(DenseThreads(grid), shape.most_threads);
    EXPECT_EQ(grid.depth % 4, 0);
    EXPECT_GE(grid.stages, std::min<int64_t>(2, (problem.k + grid.depth - 1) / grid.depth));
    EXPECT_LE(8 + 8 * grid.stages, kDenseBarrierBytes);
    EXPECT_LE(DenseSharedBytes(problem.n, problem.k, grid), SharedBytesOfPlace(grid.places));
    EXPECT_LE(static_cast<size_t>(SharedBytesOfPlace(grid.places)), H200().shared_bytes_per_block);
    EXPECT_LE((SharedBytesOfPlace(grid.places) + 1024) * grid.places,
              static_cast<int>(H200().shared_bytes_per_multiprocessor));
    EXPECT_GT(DenseSeconds(problem, 132, grid), 0);
  };
  for (int64_t size : {1, 2, 7, 8, 31, 33, 61, 96, 100, 129, 255, 333, 400, 511, 512}) {
    for (int64_t k : {1, 3, 16, 17, 63, 128, 253, 500, 2000}) {
      for (int64_t batch : {1, 64, 5000}) {
        expect_fit(DenseProblem(DType::kF32, size, size, k, batch));
        expect_fit(DenseProblem(DType::kF32, 10 * size, size, k, batch));
        expect_fit(DenseProblem(DType::kF32, size, 100, k, batch));
      }
    }
  }
  EXPECT_GT(checked, 900);
  EXPECT_EQ(by_16, 0);  // 8-byte alignment is all that is promised
  Problem aligned = DenseProblem(DType::kF32, 100, 100, 100, 256);
  aligned.b.alignment_bytes = aligned.d.alignment_bytes = 16;
  expect_fit(aligned);
  EXPECT_EQ(by_16, 1);
  const DenseGrid grid = BestDenseGrid(aligned, 132);
  aligned.d.alignment_bytes = 4;
  expect_fit(aligned);
  EXPECT_EQ(by_16, 1);
  EXPECT_NE(BestDenseGrid(aligned, 132).shape, grid.shape);
}

TEST(DenseGrids, TakeMatricesWithoutGaps) {
  const Problem dense = DenseProblem(DType::kF32, 61, 67, 45, 40);
  EXPECT_EQ(WhyNotDense(dense, 132), "");
  const auto without = [&](auto change) {
    Problem problem = dense;
    change(problem);
    return WhyNotDense(problem, 132);
  };
  EXPECT_NE(without([](Problem& p) { p.a.transposed = true; }), "");
  EXPECT_NE(without([](Problem& p) { p.b.transposed = true; }), "");
  EXPECT_NE(without([](Problem& p) { p.a.ld += 1; }), "");
  EXPECT_NE(without([](Problem& p) { p.b.ld += 1; }), "");
  EXPECT_NE(without([](Problem& p) { p.d.ld += 1; }), "");
  EXPECT_NE(without([](Problem& p) { p.beta = 1, p.c.ld += 1; }), "");
  EXPECT_NE(without([](Problem& p) { p.alpha = 0; }), "");
  EXPECT_NE(without([](Problem& p) { p.batch_count = 65536; }), "");
  EXPECT_NE(without([](Problem& p) { p.n = p.b.ld = p.d.ld = 513; }), "");
  EXPECT_NE(without([](Problem& p) { p.k = p.a.ld = 8193; }), "");
  // C counts where it is read; matrices of a batch may lie anywhere.
  EXPECT_EQ(without([](Problem& p) { p.beta = 0, p.c.ld += 1; }), "");
  EXPECT_EQ(without([](Problem& p) { p.a.batch_stride += 1, p.b.batch_stride = 0; }), "");
}

TEST(DenseGrids, AreReachedByTheChecks) {
  for (CaseSet set : {CaseSet::kQuick, CaseSet::kFull}) {
    std::set<int> shapes;
    for (const CheckCase& check_case : CheckCases(DType::kF32, set)) {
      if (!WhyNotDense(check_case.problem, 132).empty()) continue;
      shapes.insert(BestDenseGrid(check_case.problem, 132).shape);
    }
    EXPECT_EQ(shapes.size(), std::size(kDenseShapes));
  }
}

TEST(OuterTiles, AreReachedByTheChecks) {
  for (CaseSet set : {CaseSet::kQuick, CaseSet::kFull}) {
    std::set<int> tiles;
    std::set<bool> shifts;
    for (const CheckCase& check_case : CheckCases(DType::kF32, set)) {
      if (!WhyNotOuter(check_case.problem, H200()).empty()) continue;
      const int tile = BestOuterTile({&check_case.problem, 1}, H200());
      tiles.insert(tile);
      shifts.insert(ShiftsOuter(check_case.problem, kOuterTiles[tile]));
    }
    EXPECT_GE(static_cast<int>(tiles.size()), set == CaseSet::kQuick ? 3 : kOuterTileCount);
    EXPECT_EQ(shifts.size(), 2u);
  }
}

TEST(OuterTiles, CoverEveryColumnWhereverRowsBegin) {
  for (const OuterTile& tile : kOuterTiles) {
    int shifted = 0;
    for (int64_t n = 1; n <= 3000; ++n) {
      const Problem problem = DenseProblem(DType::kF32, 100, n, 7);
      const int64_t covered = OuterTilesAlong(problem, tile) * tile.tile_n();
      const bool shifts = ShiftsOuter(problem, tile);
      shifted += shifts ? 1 : 0;
      EXPECT_GE(covered, n + (shifts ? kOuterSector - 1 : 0));
      EXPECT_LT(covered - tile.tile_n(), n + kOuterSector - 1);
    }
    EXPECT_GT(shifted, 2500);
    for (int64_t k : {0, 1, 63, 64}) {
      EXPECT_LE(kOuterPlaces * (tile.shared_bytes(k) + 1024),
                static_cast<int64_t>(H200().shared_bytes_per_multiprocessor));
    }
    EXPECT_LE(tile.shared_bytes(kOuterDepth), static_cast<int64_t>(H200().shared_bytes_per_block));
  }
}

TEST(OuterTiles, ShiftRowsThatDoNotBeginAtSectors) {
  const auto shifts = [](auto change) {
    Problem problem = DenseProblem(DType::kF32, 100, 200, 7, 2);
    problem.d.alignment_bytes = 32;
    change(problem);
    return ShiftsOuter(problem, kOuterTiles[kOuterTileCount - 1]);
  };
  EXPECT_FALSE(shifts([](Problem& /*p*/) {}));
  EXPECT_TRUE(shifts([](Problem& p) { p.d.alignment_bytes = 16; }));
  EXPECT_TRUE(shifts([](Problem& p) { p.d.ld += 4; }));
  EXPECT_TRUE(shifts([](Problem& p) { p.d.batch_stride += 4; }));
  EXPECT_FALSE(shifts([](Problem& p) { p.d.batch_stride += 4, p.batch_count = 1; }));
  // Another tile for a few columns: only beside many.
  EXPECT_FALSE(shifts([](Problem& p) { p.d.ld += 4, p.n = 256; }));
  EXPECT_TRUE(shifts([](Problem& p) { p.d.ld += 4, p.n = 2560; }));
}

TEST(OuterTiles, TakeShortSums) {
  const auto why_not = [](auto change) {
    Problem problem = DenseProblem(DType::kF32, 1000, 2000, kOuterDepth, 3);
    change(problem);
    return WhyNotOuter(problem, H200());
  };
  EXPECT_EQ(why_not([](Problem& /*p*/) {}), "");
  EXPECT_NE(why_not([](Problem& p) { p.k += 1; }), "");
  EXPECT_EQ(why_not([](Problem& p) { p.k += 1, p.alpha = 0; }), "");
  EXPECT_NE(why_not([](Problem& p) { p.dtype = DType::kF64; }), "");
  EXPECT_NE(why_not([](Problem& p) { p.batch_count = int64_t{1} << 31; }), "");
  DeviceInfo little = H200();
  little.shared_bytes_per_block = size_t{99} << 10;
  const Problem problem = DenseProblem(DType::kF32, 1000, 2000, kOuterDepth);
  EXPECT_NE(WhyNotOuter(problem, little), "");
  EXPECT_EQ(WhyNotOuter(DenseProblem(DType::kF32, 1000, 2000, 64), little), "");
}

}  // namespace
}  // namespace gemm
