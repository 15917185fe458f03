// The host side of the real families, on machines without a GPU or its driver.

#include "kernels/families/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/bench/shape_lists.h"
#include "kernels/bench/shapes.h"
#include "kernels/families/boxed_choice.h"
#include "kernels/families/dense_choice.h"
#include "kernels/families/outer_tiles.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/small_shapes.h"
#include "kernels/families/sum_order.h"
#include "kernels/registry.h"
#include "kernels/select.h"
#include "tests/kernels/devices.h"

namespace gemm {
namespace {

const KernelFamily& Reference() { return *Families().back(); }

// Calls body(family, config) for every configuration of a type.
template <typename Body>
void ForEachKernel(DType dtype, Body body) {
  for (const KernelFamily* family : Families()) {
    for (size_t config = 0; config < family->configs().size(); ++config) {
      if (family->configs()[config].dtype == dtype) body(*family, static_cast<int>(config));
    }
  }
}

TEST(Families, HaveUniqueNamesThatStartWithTheFamily) {
  std::set<std::string_view> kernels;
  std::set<std::string_view> families;
  for (const KernelFamily* family : Families()) {
    EXPECT_TRUE(families.insert(family->name()).second) << family->name();
    for (const KernelConfig& config : family->configs()) {
      EXPECT_TRUE(kernels.insert(config.name).second) << config.name;
      EXPECT_EQ(config.name.substr(0, family->name().size() + 1),
                std::string(family->name()) + "_");
      EXPECT_NE(config.name.find(NameOf(config.dtype)), std::string_view::npos) << config.name;
    }
  }
  EXPECT_EQ(Reference().name(), "reference");
}

TEST(Families, RunEveryCheckedCaseOfTheirTypeAndClassAlone) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const DType other = dtype == DType::kF32 ? DType::kF64 : DType::kF32;
    for (const CheckCase& check_case : CheckCases(dtype, CaseSet::kFull)) {
      bool streamed = false;
      ForEachKernel(dtype, [&](const KernelFamily& family, int config) {
        // Sequential kernels run everything, but for matrices with gaps, ragged ones and long sums;
        // the others what is summed in their order.
        const NumericsClass numerics = family.configs()[config].numerics;
        bool runs = MayBeSummed(check_case.problem, numerics);
        if (numerics == NumericsClass::kStreamK) {
          // One of its two tiles.
          runs = runs && family.WhyNot(check_case.problem, H200(), config).empty();
          streamed = streamed || runs;
        }
        if (&family == &DenseFamily()) runs = WhyNotDense(check_case.problem, 132).empty();
        if (&family == &BoxedFamily()) runs = WhyNotBoxed(check_case.problem).empty();
        if (&family == &OuterFamily()) {
          runs = check_case.problem.k <= kOuterDepth || !ReadsAB(check_case.problem);
        }
        EXPECT_EQ(family.WhyNot(check_case.problem, H200(), config).empty(), runs)
            << family.configs()[config].name << ": " << check_case.name;
        if (!runs) return;
        const double seconds = family.ModelSeconds(check_case.problem, H200(), config);
        EXPECT_GT(seconds, 0) << family.configs()[config].name << ": " << check_case.name;
        EXPECT_LT(seconds, 10) << family.configs()[config].name << ": " << check_case.name;
      });
      EXPECT_EQ(streamed, MayBeSummed(check_case.problem, NumericsClass::kStreamK))
          << check_case.name;
    }
    ForEachKernel(other, [&](const KernelFamily& family, int config) {
      EXPECT_NE(family.WhyNot(DenseProblem(dtype, 8, 8, 8), H200(), config), "");
    });
  }
}

TEST(Families, ReferenceTakesWhatOthersCannot) {
  // 2^45 columns are more blocks than a grid has in any direction.
  const Problem wide = DenseProblem(DType::kF32, 1, int64_t{1} << 45, 1);
  ASSERT_FALSE(Validate(wide));
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    EXPECT_EQ(family.WhyNot(wide, H200(), config).empty(), &family == &Reference())
        << family.name();
  });
  EXPECT_EQ(Select(wide, H200(), Families()).reason, "only one");
}

TEST(Families, PlanLaunchesForEachProblemThatIsNotEmpty) {
  const std::vector<Problem> all = {
      DenseProblem(DType::kF32, 3, 5, 7), DenseProblem(DType::kF32, 0, 5, 7),
      DenseProblem(DType::kF32, 3, 5, 7, 0), DenseProblem(DType::kF32, 300, 500, 0, 4)};
  const std::vector<Operands> operands(all.size());
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    std::vector<Problem> problems = all;
    if (!family.WhyNot(all.back(), H200(), config).empty()) problems.pop_back();
    const Plan plan = family.MakePlan(problems, H200(), config);
    EXPECT_EQ(plan.config, config);
    EXPECT_GE(plan.launches, family.Groups(config) ? 1 : static_cast<int>(problems.size()) - 2);
    EXPECT_GT(plan.args_bytes, 0u);
    EXPECT_LE(plan.device_args_bytes, plan.args_bytes);
    // Encode stays inside what it asked for.
    std::vector<unsigned char> args(plan.args_bytes + 1, 0xa5);
    family.Encode(plan, problems, operands, args.data());
    EXPECT_EQ(args.back(), 0xa5);
  });
  const Plan nothing = Reference().MakePlan({}, H200(), 0);
  EXPECT_EQ(nothing.launches, 0);
  EXPECT_EQ(nothing.args_bytes, 0u);
}

// A group's launches hold kMostGrouped problems each, whatever lies between them.
TEST(Families, PlanOneLaunchForAGroup) {
  for (const size_t count : {1, 2, kMostGrouped, kMostGrouped + 1, 3 * kMostGrouped}) {
    std::vector<Problem> problems;
    for (size_t i = 0; i < count; ++i) {
      const auto size = static_cast<int64_t>(1 + i % 70);
      problems.push_back(DenseProblem(DType::kF32, size, 71 - size, 3 + size, 1 + size % 3));
      problems.push_back(DenseProblem(DType::kF32, 0, 5, 7));
    }
    const std::vector<Operands> operands(problems.size());
    int grouping = 0;
    ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
      if (!family.Groups(config) || !family.WhyNot(problems[0], H200(), config).empty()) return;
      ++grouping;
      const Plan plan = family.MakePlan(problems, H200(), config);
      EXPECT_EQ(plan.launches, (count + kMostGrouped - 1) / kMostGrouped);
      EXPECT_EQ(plan.workspace_bytes, 0u);
      EXPECT_EQ(plan.device_args_bytes == 0, count == 1);
      std::vector<unsigned char> args(plan.args_bytes + 1, 0xa5);
      family.Encode(plan, problems, operands, args.data());
      EXPECT_EQ(args.back(), 0xa5);
    });
    EXPECT_GT(grouping, 0);
  }
}

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
    EXPECT_LE(DenseSharedBytes(problem.n, problem.k, grid), DenseSharedBytesOfPlace(grid.places));
    EXPECT_LE(static_cast<size_t>(DenseSharedBytesOfPlace(grid.places)),
              H200().shared_bytes_per_block);
    EXPECT_LE((DenseSharedBytesOfPlace(grid.places) + 1024) * grid.places,
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

// Chunks cost workspace; large batches go in rounds instead of growing it.
TEST(Families, KeepChunkSumsWithinARound) {
  Problem one = DenseProblem(DType::kF32, 64, 64, 16320);
  for (MatrixLayout* layout : {&one.a, &one.b, &one.d}) layout->alignment_bytes = 256;
  Problem many = one;
  many.batch_count = 1000;
  int with_chunks = 0;
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    if (!family.WhyNot(one, H200(), config).empty()) return;
    const Plan plan = family.MakePlan({&one, 1}, H200(), config);
    if (family.configs()[config].numerics == NumericsClass::kSequential) {
      // At most A, packed.
      EXPECT_LE(plan.workspace_bytes, size_t{64} * 16320 * 4) << family.configs()[config].name;
      return;
    }
    ++with_chunks;
    EXPECT_EQ(plan.launches, 2);
    const int64_t chunks = ChunkCount(family.configs()[config].numerics, one);
    const int64_t round = (int64_t{16} << 20) / (chunks * 64 * 64);
    EXPECT_EQ(plan.workspace_bytes, static_cast<size_t>(chunks * 64 * 64 * 4));
    const Plan batch = family.MakePlan({&many, 1}, H200(), config);
    EXPECT_EQ(batch.launches, 2 * ((1000 + round - 1) / round));
    EXPECT_EQ(batch.workspace_bytes, static_cast<size_t>(round * chunks * 64 * 64 * 4));
  });
  EXPECT_GT(with_chunks, 0);
}

TEST(Families, NeedHopperWhereTheyAreBuiltForIt) {
  DeviceInfo ampere = H200();
  ampere.compute_capability = 80;
  const std::vector<CheckCase> cases = CheckCases(DType::kF32, CaseSet::kFull);
  ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
    const std::string_view name = family.configs()[config].name;
    if (name.find("_sm90") == std::string_view::npos) return;
    int runs = 0;
    for (const CheckCase& check_case : cases) {
      if (!family.WhyNot(check_case.problem, H200(), config).empty()) continue;
      ++runs;
      EXPECT_EQ(family.WhyNot(check_case.problem, ampere, config),
                "needs a device of compute capability 9.0")
          << name << ": " << check_case.name;
    }
    EXPECT_GT(runs, 0) << name;
  });
}

TEST(SumOrder, DependsOnSizesAndTypeAlone) {
  const auto of = [](int64_t m, int64_t n, int64_t k) {
    return NumericsOf(DenseProblem(DType::kF32, m, n, k));
  };
  EXPECT_EQ(of(4096, 4096, 4096), NumericsClass::kSequential);
  EXPECT_EQ(of(2048, 2048, 2048), NumericsClass::kSequential);
  EXPECT_EQ(of(1024, 1024, 1024), NumericsClass::kQuarters);
  EXPECT_EQ(of(512, 512, 512), NumericsClass::kQuarters);
  EXPECT_EQ(of(256, 512, 513), NumericsClass::kChunkedQuarters);
  EXPECT_EQ(of(512, 512, 256), NumericsClass::kSequential);
  EXPECT_EQ(of(16, 256, 256), NumericsClass::kSequential);
  EXPECT_EQ(of(64, 64, 65536), NumericsClass::kChunkedLanes);
  EXPECT_EQ(of(64, 65, 65536), NumericsClass::kChunkedQuarters);
  EXPECT_EQ(of(64, 64, 32767), NumericsClass::kChunkedQuarters);
  EXPECT_EQ(of(16, 4096, 4096), NumericsClass::kChunkedLanes);
  EXPECT_EQ(of(4096, 16, 4096), NumericsClass::kChunkedLanes);
  EXPECT_EQ(of(16, 100000, 4096), NumericsClass::kChunkedLanes);
  EXPECT_EQ(of(100000, 40, 4096), NumericsClass::kChunkedLanes);
  EXPECT_EQ(of(41, 4096, 4096), NumericsClass::kChunkedQuarters);
  EXPECT_EQ(of(4, 100000, 4096), NumericsClass::kChunkedLanes);
  EXPECT_EQ(of(64, 64, 127), NumericsClass::kSequential);
  Problem problem = DenseProblem(DType::kF32, 512, 512, 512, 1000);
  problem.a.transposed = true;
  problem.a.ld = 515;
  problem.alpha = 2;
  problem.beta = 3;
  EXPECT_EQ(NumericsOf(problem), NumericsClass::kQuarters);
  EXPECT_EQ(NumericsOf(DenseProblem(DType::kF64, 512, 512, 512)), NumericsClass::kSequential);
  EXPECT_EQ(NumericsOf(DenseProblem(DType::kF32, int64_t{1} << 30, int64_t{1} << 20, 256)),
            NumericsClass::kSequential);
}

TEST(SumOrder, CutsKIntoWholeGranulesThatCoverIt) {
  for (int64_t n : {33, 200, 1024, 4096}) {
    for (int64_t k :
         {128, 129, 255, 256, 512, 1000, 1024, 4096, 8192, 32767, 32768, 65536, 500000}) {
      const Problem problem = DenseProblem(DType::kF32, 64, n, k);
      for (NumericsClass numerics : {NumericsClass::kQuarters, NumericsClass::kChunkedQuarters}) {
        const int64_t length = ChunkLength(numerics, problem);
        const int64_t chunks = ChunkCount(numerics, problem);
        EXPECT_EQ(length % (int64_t{kQuarters} * kQuarterGranule), 0) << k;
        EXPECT_GE(length * chunks, k) << k;
        EXPECT_LT(length * (chunks - 1), k) << k;
        EXPECT_LE(chunks, numerics == NumericsClass::kQuarters ? 1 : 256) << k;
      }
      EXPECT_EQ(ChunkCount(NumericsClass::kSequential, problem), 1);
    }
  }
  const auto chunks = [](int64_t m, int64_t n, int64_t k) {
    return ChunkCount(NumericsClass::kChunkedQuarters, DenseProblem(DType::kF32, m, n, k));
  };
  EXPECT_EQ(chunks(64, 7168, 16384), 7);
  EXPECT_EQ(chunks(64, 4096, 4096), 4);
  EXPECT_EQ(chunks(256, 256, 8192), 16);
  EXPECT_EQ(chunks(64, 64, 65536), 187);
  // As tiles of 48 x 96 and of 96 x 48 fill a wave.
  EXPECT_EQ(chunks(717, 92, 8835), 16);
  EXPECT_EQ(chunks(711, 517, 1433), 3);
  // Tiles that fill a wave are not cut, however long k is.
  EXPECT_EQ(chunks(1309, 911, 743), 1);
  EXPECT_EQ(chunks(1309, 911, 65536), 1);
}

// What a sum takes is settled in a few microseconds for any product.
TEST(SumOrder, ConsidersFewCuts) {
  for (int64_t k : {int64_t{128}, int64_t{65536}, (int64_t{1} << 31) - 1024}) {
    for (int64_t n : {int64_t{41}, int64_t{1000}, int64_t{1} << 40}) {
      const Problem problem = DenseProblem(DType::kF32, 64, n, k);
      const int64_t chunks = ChunkCount(NumericsClass::kChunkedQuarters, problem);
      EXPECT_LE(chunks * QuarterTiles(problem), std::max<int64_t>(1056, QuarterTiles(problem)))
          << n << " " << k;
    }
  }
}

// A cluster's blocks find places near each other, but not on every multiprocessor.
TEST(SumOrder, ClustersChunksWhereAllFindPlaces) {
  EXPECT_FALSE(ChunksMeetInClusters(1, 100, 2));
  EXPECT_TRUE(ChunksMeetInClusters(2, 100, 2));
  EXPECT_TRUE(ChunksMeetInClusters(2, 1000, 2));
  EXPECT_TRUE(ChunksMeetInClusters(4, 112, 2));
  EXPECT_FALSE(ChunksMeetInClusters(4, 116, 2));  // some would share a multiprocessor
  EXPECT_FALSE(ChunksMeetInClusters(4, 132, 2));
  EXPECT_TRUE(ChunksMeetInClusters(4, 136, 2));  // as some do in any case
  EXPECT_TRUE(ChunksMeetInClusters(6, 102, 2));
  EXPECT_FALSE(ChunksMeetInClusters(6, 108, 2));  // which the 18th cluster of six does
  EXPECT_TRUE(ChunksMeetInClusters(6, 216, 2));
  EXPECT_TRUE(ChunksMeetInClusters(7, 105, 2));
  EXPECT_FALSE(ChunksMeetInClusters(7, 112, 2));
  EXPECT_TRUE(ChunksMeetInClusters(8, 224, 2));
  EXPECT_FALSE(ChunksMeetInClusters(8, 232, 2));
  EXPECT_TRUE(ChunksMeetInClusters(3, 300, 3));
  EXPECT_FALSE(ChunksMeetInClusters(3, 300, 2));
  EXPECT_FALSE(ChunksMeetInClusters(9, 90, 2));
}

TEST(SumOrder, CutsLanesByTheDeviceThatTheyFill) {
  const auto chunks = [](int64_t m, int64_t n, int64_t k) {
    const Problem problem = DenseProblem(DType::kF32, m, n, k);
    const int64_t length = ChunkLength(NumericsClass::kChunkedLanes, problem);
    const int64_t count = ChunkCount(NumericsClass::kChunkedLanes, problem);
    EXPECT_EQ(length % kLaneRound, 0) << m << " " << n << " " << k;
    EXPECT_GE(length * count, k) << m << " " << n << " " << k;
    EXPECT_LT(length * (count - 1), k) << m << " " << n << " " << k;
    EXPECT_EQ(count, ChunkCount(NumericsClass::kChunkedLanes, DenseProblem(DType::kF32, n, m, k)));
    return count;
  };
  EXPECT_EQ(chunks(1, 4096, 4096), 1);
  EXPECT_EQ(chunks(16, 2048, 2048), 2);
  EXPECT_EQ(chunks(32, 4096, 4096), 2);
  EXPECT_EQ(chunks(6144, 4, 2048), 1);
  EXPECT_EQ(chunks(8, 14336, 4096), 1);
  EXPECT_EQ(chunks(35, 8457, 4096), 16);
  EXPECT_EQ(chunks(35, 700, 2048), 8);
  EXPECT_EQ(chunks(1, 100, 255), 1);
  EXPECT_EQ(chunks(1, 100, 256), 1);
  EXPECT_EQ(chunks(1, 100, 512), 2);
  EXPECT_EQ(chunks(64, 64, 65536), 128);
  EXPECT_EQ(chunks(8, 512, 500000), 8);
  EXPECT_GT(chunks(1, 1, 500000), 64);
  EXPECT_LE(chunks(1, 1, int64_t{1} << 40), 256);
  EXPECT_EQ(chunks(1, int64_t{1} << 40, 4096), 1);
}

// Chunks of whole stages that cover k, as many as fill a device but no shorter than two stages.
TEST(SumOrder, DealsOutChunksByTheDeviceThatTheyFill) {
  const auto chunks = [](int64_t m, int64_t n, int64_t k) {
    const Problem problem = DenseProblem(DType::kF32, m, n, k);
    const DeepOrder order(problem);
    EXPECT_TRUE(MayBeSummed(problem, NumericsClass::kDealtChunks)) << m << " " << n << " " << k;
    EXPECT_EQ(order.chunk_length % kDeepStage, 0);
    EXPECT_GE(order.chunk_length * order.chunks, k);
    EXPECT_LT(order.chunk_length * (order.chunks - 1), k);
    EXPECT_LE(order.chunks * order.tiles, kDeepMostChunks);
    EXPECT_EQ(order.chunks, ChunkCount(NumericsClass::kDealtChunks, problem));
    EXPECT_EQ(order.chunks, DeepOrder(DenseProblem(DType::kF32, n, m, k)).chunks);
    return order.chunks;
  };
  EXPECT_EQ(chunks(64, 64, 65536), 128);
  EXPECT_EQ(chunks(64, 63, 65537), 129);
  EXPECT_EQ(chunks(64, 64, 4096), 64);
  EXPECT_EQ(chunks(17, 33, 1024), 16);
  EXPECT_EQ(chunks(256, 256, 8192), 8);
  EXPECT_EQ(chunks(64, int64_t{64} * 66, int64_t{1} << 40), 2);
  const auto may = [](int64_t m, int64_t n, int64_t k, DType dtype = DType::kF32) {
    return MayBeSummed(DenseProblem(dtype, m, n, k), NumericsClass::kDealtChunks);
  };
  EXPECT_FALSE(may(16, 64, 65536));
  EXPECT_FALSE(may(64, 64, 1023));
  EXPECT_FALSE(may(64, 64 * 66 + 1, 65536));
  EXPECT_FALSE(may(64, int64_t{1} << 40, int64_t{1} << 20));
  EXPECT_FALSE(may(64, 64, 65536, DType::kF64));
}

// Strips that fill whole waves have all of k, and those left over are cut.
TEST(SumOrder, LeavesLanesOfWholeWavesUncut) {
  const auto order = [](int64_t m, int64_t n, int64_t k) {
    return LaneOrder(DenseProblem(DType::kF32, m, n, k));
  };
  EXPECT_EQ(order(35, 8457, 4096).strips, 133);
  EXPECT_EQ(order(35, 8457, 4096).whole_strips, 132);
  EXPECT_EQ(order(35, 8457, 4096).LengthAt(131, 4096), 4096);
  EXPECT_EQ(order(35, 8457, 4096).LengthAt(132, 4096), 256);
  EXPECT_EQ(order(32, 14336, 4096).whole_strips, 132);
  EXPECT_EQ(order(32, 4096, 4096).whole_strips, 0);
  // One wave of strips of 64.
  EXPECT_EQ(order(32, 8448, 4096).whole_strips, 0);
  EXPECT_EQ(order(32, 8448, 4096).chunks, 1);
  EXPECT_EQ(order(8, 14336, 4096).whole_strips, 0);
}

// Strips of 16 that fit one wave have all of k, unless chunks of them do too, or k is so long that
// wide strips in chunks take less time.
TEST(SumOrder, TakesNarrowStripsOfLanesWhereTheyFitAWave) {
  const auto order = [](int64_t m, int64_t n, int64_t k) {
    return LaneOrder(DenseProblem(DType::kF32, m, n, k));
  };
  EXPECT_EQ(order(1760, 32, 1760).strip, 16);
  EXPECT_EQ(order(1760, 32, 1760).strips, 110);
  EXPECT_EQ(order(1760, 32, 1760).chunks, 1);
  EXPECT_EQ(order(17, 2112, 1000).strips, 132);
  EXPECT_EQ(order(17, 2113, 1000).strip, 64);
  EXPECT_EQ(order(953, 19, 1125).strip, 16);
  EXPECT_EQ(order(953, 19, 1125).chunks, 2);
  EXPECT_EQ(order(19, 266, 2807).strips, 17);
  EXPECT_EQ(order(19, 266, 2807).chunks, 6);
  EXPECT_EQ(order(31, 59, 7098).chunks, 28);
  EXPECT_EQ(order(16, 1760, 1760).strip, 32);
  EXPECT_EQ(order(33, 1760, 1760).strip, 64);
  EXPECT_EQ(order(32, 1760, 100000).strip, 64);
}

// However many matrices, they need no more than a bounded workspace, and none where the batch alone
// fills the device.
TEST(Families, SumLanesWithinABoundedWorkspace) {
  const auto workspace = [](int64_t m, int64_t n, int64_t k, int64_t batch_count) {
    Problem problem = DenseProblem(DType::kF32, m, n, k, batch_count);
    problem.a.alignment_bytes = problem.b.alignment_bytes = 256;
    size_t most = 0;
    for (const int capability : {80, 90}) {
      DeviceInfo device = H200();
      device.compute_capability = capability;
      int kernels = 0;
      ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
        if (family.configs()[config].numerics != NumericsClass::kChunkedLanes) return;
        if (capability == 80 && family.configs()[config].name != "skinny_f32_lanes") return;
        EXPECT_EQ(family.WhyNot(problem, device, config), "");
        const Plan plan = family.MakePlan({&problem, 1}, device, config);
        EXPECT_EQ(plan.launches, plan.workspace_bytes > 0 ? 2 : 1);
        most = std::max(most, plan.workspace_bytes);
        ++kernels;
      });
      EXPECT_EQ(kernels, capability == 80 ? 1 : 2);
    }
    return most;
  };
  EXPECT_EQ(workspace(8, 1024, 4096, 1), size_t{4} * 8 * 1024 * 4);
  EXPECT_EQ(workspace(8, 4096, 4096, 1), 0u);
  EXPECT_EQ(workspace(8, 4096, 4096, 17), 0u);
  EXPECT_GT(workspace(1, 1, 500000, 1000), 0u);
  for (int64_t batch_count : {1, 10, 100, 1000, 100000}) {
    EXPECT_LE(workspace(40, 64, 500000, batch_count), size_t{64} << 20) << batch_count;
  }
}

// A narrow operand whose rows are not aligned is copied to where they are, for boxes. Operands may
// lie better than the problem says, so there is room wherever they might be.
TEST(Families, KeepRoomToPackANarrowOperand) {
  const auto plan = [](Problem problem, int32_t alignment_bytes) {
    problem.a.alignment_bytes = problem.b.alignment_bytes = alignment_bytes;
    Plan found;
    ForEachKernel(DType::kF32, [&](const KernelFamily& family, int config) {
      if (family.configs()[config].name == "skinny_f32_lanes") {
        found = family.MakePlan({&problem, 1}, H200(), config);
      }
    });
    return found;
  };
  const Problem even = DenseProblem(DType::kF32, 32, 1760, 1760);
  EXPECT_EQ(plan(even, 256).launches, 1);
  EXPECT_EQ(plan(even, 256).workspace_bytes, 0u);
  const Problem odd = DenseProblem(DType::kF32, 31, 4096, 4097);
  EXPECT_EQ(plan(odd, 256).launches, 3);
  // Not where it takes as long to pack it as to copy its elements from where they are.
  EXPECT_EQ(plan(DenseProblem(DType::kF32, 31, 2001, 601), 256).launches, 1);
  EXPECT_EQ(plan(DenseProblem(DType::kF32, 12, 4097, 4097), 256).launches, 1);
  Problem batch = DenseProblem(DType::kF32, 1760, 31, 1760, 4);
  EXPECT_EQ(plan(batch, 256).workspace_bytes, size_t{4} * 1760 * 32 * 4);
  batch.b.batch_stride = 0;
  EXPECT_EQ(plan(batch, 256).workspace_bytes, size_t{4} * 1760 * 32);
  // By copies from where it is, as far as one knows.
  const Problem few = DenseProblem(DType::kF32, 8, 8192, 260);
  EXPECT_EQ(plan(few, 4).launches, 1);
  EXPECT_EQ(plan(few, 4).workspace_bytes, size_t{4} * 8 * 260);
}

TEST(SumOrder, StreamKSharesEveryCutTileWhole) {
  struct Case {
    int64_t m, n, k;
    NumericsClass numerics;
  };
  constexpr auto kQuartersCut = NumericsClass::kStreamKQuarters;
  const Case cases[] = {{1536, 1536, 1536, NumericsClass::kStreamK},
                        {3072, 1500, 1024, NumericsClass::kStreamK},
                        {4096, 4096, 4096, NumericsClass::kStreamK},
                        {300, 530, 520, NumericsClass::kStreamK},
                        {4097, 4097, 4099, NumericsClass::kStreamK},
                        {65, 65, 512, NumericsClass::kStreamK},
                        {1130, 1130, 1324, kQuartersCut},
                        {1023, 1025, 1027, kQuartersCut},
                        {66, 9000, 256, kQuartersCut},
                        {1600, 1500, 300, kQuartersCut}};
  for (const Case& shape : cases) {
    const Problem problem = DenseProblem(DType::kF32, shape.m, shape.n, shape.k);
    ASSERT_TRUE(MayBeSummed(problem, shape.numerics)) << shape.m;
    const StreamKOrder order(problem, shape.numerics);
    EXPECT_EQ(order.whole_tiles % StreamKOrder::kWorkers, 0);
    EXPECT_LE(order.cut_tiles, StreamKOrder::kWorkers);
    EXPECT_EQ(order.whole_tiles + order.cut_tiles, order.tiles_m * order.tiles_n);
    EXPECT_EQ(order.Start(0), 0);
    EXPECT_EQ(order.Start(order.sharers), order.cut_tiles * order.stages);
    for (int64_t sharer = 0; sharer < order.sharers; ++sharer) {
      const int64_t share = order.Start(sharer + 1) - order.Start(sharer);
      EXPECT_GE(share, 1) << shape.m;
      EXPECT_LE(share, order.stages) << shape.m;
    }
    // Every tile has one number.
    std::set<int64_t> tiles;
    for (int64_t i = 0; i < order.tiles_m; ++i) {
      for (int64_t j = 0; j < order.tiles_n; ++j) tiles.insert(order.TileAt(i, j));
    }
    EXPECT_EQ(static_cast<int64_t>(tiles.size()), order.tiles_m * order.tiles_n);
    EXPECT_EQ(*tiles.rbegin(), order.tiles_m * order.tiles_n - 1);
  }
  const auto quarters_cut = [](int64_t m, int64_t n, int64_t k) {
    return MayBeSummed(DenseProblem(DType::kF32, m, n, k), kQuartersCut);
  };
  EXPECT_EQ(StreamKOrder(DenseProblem(DType::kF32, 1130, 1130, 4096), kQuartersCut).sharers, 264);
  EXPECT_EQ(StreamKOrder(DenseProblem(DType::kF32, 1023, 1025, 1027), kQuartersCut).sharers, 34);
  EXPECT_FALSE(quarters_cut(915, 929, 907));     // 225 tiles: less than a wave
  EXPECT_FALSE(quarters_cut(1408, 768, 1024));   // 264
  EXPECT_FALSE(quarters_cut(1280, 1280, 1024));  // 400: 136 are left over
  EXPECT_FALSE(quarters_cut(1130, 1130, 255));
  EXPECT_FALSE(quarters_cut(64, 20000, 1024));
  EXPECT_FALSE(quarters_cut(4096, 4096, 1024));
  const auto may = [](int64_t m, int64_t n, int64_t k) {
    return MayBeSummed(DenseProblem(DType::kF32, m, n, k), NumericsClass::kStreamK);
  };
  EXPECT_FALSE(may(1408, 3072, 1024));  // 132 tiles
  EXPECT_FALSE(may(1024, 1024, 511));
  EXPECT_FALSE(may(64, 4096, 4096));
  EXPECT_FALSE(may(1024, int64_t{1} << 20, 4096));
  EXPECT_FALSE(MayBeSummed(DenseProblem(DType::kF64, 1024, 1024, 1024), NumericsClass::kStreamK));
}

TEST(StridedGemm, TurnsTransposesIntoStrides) {
  Problem problem = DenseProblem(DType::kF32, 3, 5, 7, 2);
  problem.a.transposed = true;
  problem.a.ld = 4;
  problem.alpha = 2;
  const StridedGemm<float> p = MakeStridedGemm<float>(problem, {});
  EXPECT_EQ(p.a_row, 1);
  EXPECT_EQ(p.a_column, 4);
  EXPECT_EQ(p.b_row, 5);
  EXPECT_EQ(p.b_column, 1);
  EXPECT_EQ(p.k, 7);
  EXPECT_EQ(p.alpha, 2);
}

TEST(StridedGemm, UnreadOperandsLeaveAnEmptySum) {
  Problem problem = DenseProblem(DType::kF32, 3, 5, 7);
  problem.alpha = 0;
  EXPECT_EQ(MakeStridedGemm<float>(problem, {}).k, 0);
  problem = DenseProblem(DType::kF32, 3, 5, 0);
  problem.alpha = std::numeric_limits<double>::infinity();
  EXPECT_EQ(MakeStridedGemm<float>(problem, {}).alpha, 0);  // not infinity times the empty sum
}

// What the cost model takes on an H200 where no measured row does: what users run on other cards.
// The table's choices are in golden_choices.txt.
TEST(Model, ChoicesAreTheseUntilMeasuredOtherwise) {
  struct Choice {
    DType dtype;
    int64_t m, n, k, batch_count;
    const char* kernel;
  };
  const Choice choices[] = {
      {DType::kF32, 1, 1, 1, 1, "tiled_f32_16x16x16"},
      {DType::kF32, 64, 64, 64, 1, "small_f32"},
      {DType::kF32, 128, 128, 128, 1, "small_f32"},
      {DType::kF32, 256, 256, 256, 1, "small_f32"},
      {DType::kF32, 512, 512, 512, 1, "small_f32_quarters"},
      {DType::kF32, 1024, 1024, 1024, 1, "sliced_f32_sm90_64x64x64_s3"},
      {DType::kF32, 1023, 1025, 1027, 1, "sliced_f32_sm90_48x96x64_s2"},
      {DType::kF32, 2048, 2048, 2048, 1, "unpacked_f32_sm90_128x128x32_s3"},
      {DType::kF32, 4096, 4096, 4096, 1, "stream_k_f32_sm90_128x256x32_s4"},
      {DType::kF32, 1, 4096, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 8, 4096, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 128, 4096, 4096, 1, "sliced_f32_sm90_64x64x64_s3_chunks"},
      {DType::kF32, 64, 64, 65536, 1, "deep_f32_sm90"},
      {DType::kF32, 8192, 8192, 64, 1, "boxed_f32_sm90"},
      {DType::kF32, 1148, 1022, 39, 1, "outer_f32"},
      {DType::kF32, 350, 2531, 21, 1, "outer_f32"},
      {DType::kF32, 5223, 5644, 1, 1, "outer_f32"},
      {DType::kF32, 6144, 4, 2048, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 64, 64, 64, 256, "small_f32"},
      {DType::kF32, 4096, 1, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 4096, 16, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 32, 4096, 4096, 1, "skinny_f32_sm90_clusters"},
      {DType::kF32, 1536, 1536, 1536, 1, "sliced_f32_sm90_48x96x64_s2"},
      {DType::kF64, 128, 128, 128, 1, "tiled_f64_16x16x16"},
      {DType::kF64, 256, 256, 256, 1, "tiled_f64_16x16x16"},
      {DType::kF64, 512, 512, 512, 1, "register_f64_64x64x8"},
      {DType::kF64, 8, 4096, 4096, 1, "tiled_f64_16x16x16"},
      {DType::kF64, 4096, 4096, 4096, 1, "register_f64_64x64x8"},
  };
  for (const Choice& choice : choices) {
    const Problem problem =
        BenchProblem({choice.m, choice.n, choice.k, choice.batch_count}, choice.dtype);
    EXPECT_EQ(Select(problem, H200(), Families(), {}, TuningTable{}).kernel.get().name,
              choice.kernel)
        << choice.m << " x " << choice.n << " x " << choice.k << " batch " << choice.batch_count;
  }
}

TEST(Model, TakesTheReferenceOnlyWhereNothingElseRuns) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (int64_t m : {1, 17, 512, 8192}) {
      for (int64_t n : {1, 100, 4096}) {
        for (int64_t k : {0, 1, 64, 5000}) {
          const Selection selection =
              Select(DenseProblem(dtype, m, n, k), H200(), Families(), {}, TuningTable{});
          EXPECT_NE(selection.kernel.family, &Reference()) << m << " " << n << " " << k;
        }
      }
    }
  }
}

// As the lanes of a device do: its Selector and the families are one for all.
TEST(Selector, ServesManyThreadsAtOnce) {
  const Selector selector(H200(), Families());
  const std::vector<BenchShape> shapes = GoldenShapes();
  const auto choose = [&](std::vector<std::string_view>* names) {
    for (const BenchShape& shape : shapes) {
      names->push_back(selector.Select(BenchProblem(shape, DType::kF32)).kernel.get().name);
    }
  };
  std::vector<std::string_view> alone;
  choose(&alone);
  std::vector<std::vector<std::string_view>> together(4);
  std::vector<std::thread> threads;
  threads.reserve(together.size());
  for (std::vector<std::string_view>& names : together) threads.emplace_back(choose, &names);
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string_view>& names : together) EXPECT_EQ(names, alone);
}

TEST(Shapes, AreValidAndNamedApart) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (CaseSet set : {CaseSet::kQuick, CaseSet::kFull}) {
      std::set<std::string> names;
      for (const CheckCase& check_case : CheckCases(dtype, set)) {
        EXPECT_TRUE(names.insert(check_case.name).second) << check_case.name;
        EXPECT_FALSE(Validate(check_case.problem)) << check_case.name;
        EXPECT_FALSE(IsEmpty(check_case.problem)) << check_case.name;
        EXPECT_EQ(check_case.problem.dtype, dtype);
      }
    }
  }
}

// Kernels that describe every fourth row to the copy engine take each residue another way.
TEST(Shapes, BeginRowsAndMatricesAtEveryResidue) {
  std::set<int64_t> rows_b;
  std::set<int64_t> rows_d;
  std::set<int64_t> matrices_b;
  std::set<int64_t> matrices_d;
  for (const CheckCase& check_case : CheckCases(DType::kF32, CaseSet::kQuick)) {
    const Problem& problem = check_case.problem;
    if (problem.batch_count < 5 || ReadsC(problem) || problem.b.transposed) continue;
    rows_b.insert(problem.b.ld % 4);
    rows_d.insert(problem.d.ld % 4);
    matrices_b.insert(problem.b.batch_stride % 4);
    matrices_d.insert(problem.d.batch_stride % 4);
  }
  for (const auto* residues : {&rows_b, &rows_d, &matrices_b, &matrices_d}) {
    EXPECT_EQ(residues->size(), 4u);
  }
}

}  // namespace
}  // namespace gemm
