// How the Hopper families cut products into rounds, with the device's part done here: packing, what
// the copy engine would fetch, and the sums.

#include "kernels/families/ffma_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/bench/case_data.h"
#include "kernels/bench/shapes.h"
#include "kernels/bench/verdict.h"
#include "kernels/families/divisor.cuh"
#include "kernels/families/ffma_blocks.h"
#include "kernels/families/ffma_pack_share.cuh"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

void Pack(const Packing& p) {
  for (int64_t q = 0; q < p.batch_count; ++q) {
    for (int64_t l = 0; l < p.depth; ++l) {
      for (int64_t o = 0; o < p.outer; ++o) {
        p.to[(q * p.depth + l) * p.pitch + o] =
            p.from[q * p.batch_stride + o * p.outer_stride + l * p.depth_stride];
      }
    }
  }
}

// Shares [first, last) as ffma_pack.cuh has them; returns the count that goes up with each.
std::vector<int> PackShares(const FfmaOwnPacking& own, int first, int last) {
  std::vector<int> done;
  for (int share = first; share < last; ++share) {
    const FfmaPackShare mine(own, share);
    done.push_back(mine.done);
    const Packing& p = mine.is_b ? own.b : own.a;
    const int64_t begin = int64_t{mine.phase} * kFfmaPackTile;
    const int64_t tile = mine.tile;
    for (int64_t l = begin; l < std::min(begin + kFfmaPackTile, p.depth); ++l) {
      for (int64_t o = tile * kFfmaPackTile; o < (tile + 1) * kFfmaPackTile && o < p.outer; ++o) {
        p.to[l * p.pitch + o] = p.from[o * p.outer_stride + l * p.depth_stride];
      }
    }
  }
  return done;
}

// What a box would hold of element (o, l) of matrix q.
float Boxed(const TensorBoxes& boxes, int64_t o, int64_t l, int64_t q) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(boxes.base) % 16, 0u);
  EXPECT_EQ(boxes.depth_stride % 4, 0);
  if (o >= boxes.outer || l >= boxes.depth) return 0;
  EXPECT_LT(q, boxes.matrices);
  return boxes.base[q * boxes.matrix_stride + l * boxes.depth_stride + o];
}

void Multiply(const FfmaRound& round) {
  const StridedGemm<float>& p = round.gemm.p;
  for (int64_t q = 0; q < p.batch_count; ++q) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          const float a = round.feed_a == FfmaFeed::kBoxes
                              ? Boxed(round.boxes_a, i, l, q * round.gemm.box_step_a)
                              : p.a[q * p.a_batch + i * p.a_row + l * p.a_column];
          const float b = round.feed_b == FfmaFeed::kBoxes
                              ? Boxed(round.boxes_b, j, l, q * round.gemm.box_step_b)
                              : p.b[q * p.b_batch + j * p.b_column + l * p.b_row];
          sum += a * b;
        }
        const int64_t row = round.gemm.turned ? j : i;
        const int64_t column = round.gemm.turned ? i : j;
        float& d = p.d[q * p.d_batch + row * p.d_row + column];
        d = p.alpha * sum +
            (p.beta == 0 ? 0 : p.beta * p.c[q * p.c_batch + row * p.c_row + column]);
      }
    }
  }
}

class FfmaRoundsTest : public ::testing::TestWithParam<FfmaPacking> {
 protected:
  FfmaPacking packing() const { return GetParam(); }

  // Runs a case of integers and compares; returns the rounds it took.
  int64_t Run(const CheckCase& check_case, const FfmaConfig& config, const FfmaLimits& limits) {
    const Problem& problem = check_case.problem;
    CaseData<float> data = MakeCaseData<float>(check_case, 5);
    const Expected<float> expected = ExpectedResult<float>(problem, data);
    HostOperand<float> result = data.d;
    const Operands operands{data.a.data(), data.b.data(),
                            check_case.c_is_d ? result.data() : data.c.data(), result.data()};
    const FfmaRounds rounds(problem, config, packing(), limits);
    std::vector<float> workspace(rounds.workspace_bytes() / sizeof(float) + 4);
    FfmaPackCounts counts{};
    for (int64_t index = 0; index < rounds.count(); ++index) {
      FfmaRound round = rounds.Round(index, operands);
      round.PlaceIn(workspace.data(), &counts);
      const FfmaOwnPacking& own = round.gemm.own;
      EXPECT_EQ(own.counts, round.packs_itself ? &counts : nullptr);
      if (round.packs_itself) {
        PackShares(own, 0, own.shares);
        Multiply(round);
        continue;
      }
      for (const Packing& packing : {round.packing_a, round.packing_b}) {
        if (packing.batch_count > 0) Pack(packing);
      }
      Multiply(round);
    }
    const Verdict exact = CheckExact(problem, expected, result);
    EXPECT_TRUE(exact.ok) << check_case.name << ": " << exact.fault;
    const Verdict canaries = CheckCanaries(problem, data.d, result);
    EXPECT_TRUE(canaries.ok) << check_case.name << ": " << canaries.fault;
    return rounds.count();
  }
};

constexpr FfmaShape kWide = {8, 2, 4, 1, 32, 4, 1, 8, 16, false, true};
constexpr FfmaConfig kLarge = {"large", NumericsClass::kSequential, kWide, 1, 1};
constexpr FfmaConfig kStreamed = {"streamed", NumericsClass::kStreamK, kWide, 1, 1};
constexpr FfmaConfig kShared = {
    "shared", NumericsClass::kChunkedQuarters, {8, 1, 1, 4, 64, 3, 2}, 1, 1};
constexpr FfmaConfig kCut = {"cut", NumericsClass::kStreamKQuarters, {8, 1, 1, 4, 64, 3, 2}, 1, 1};

bool IsSmall(const Problem& problem) { return FlopCount(problem) < 3e6; }

TEST_P(FfmaRoundsTest, ComputeEveryCheckedCase) {
  for (const CheckCase& check_case : CheckCases(DType::kF32, CaseSet::kFull)) {
    if (check_case.fill != Fill::kIntegers || !IsSmall(check_case.problem)) continue;
    for (const FfmaConfig& config : {kLarge, kStreamed, kShared, kCut}) {
      if (MayBeSummed(check_case.problem, config.numerics)) Run(check_case, config, {});
    }
  }
}

TEST_P(FfmaRoundsTest, ComputeInPanelsAndBatches) {
  int64_t most = 0;
  for (const CheckCase& check_case : CheckCases(DType::kF32, CaseSet::kFull)) {
    if (check_case.fill != Fill::kIntegers || !IsSmall(check_case.problem)) continue;
    most = std::max(most, Run(check_case, kLarge, {.packed = 3000, .partial = 3000}));
    if (MayBeSummed(check_case.problem, kShared.numerics)) {
      most = std::max(most, Run(check_case, kShared, {.packed = 3000, .partial = 3000}));
    }
  }
  EXPECT_GT(most, packing() == FfmaPacking::kAll ? 10 : 0);
}

TEST_P(FfmaRoundsTest, BoundTheWorkspace) {
  const FfmaLimits limits;
  const size_t most = static_cast<size_t>(2 * limits.packed + limits.partial) * sizeof(float);
  Problem large = DenseProblem(DType::kF32, 65537, 40000, 32771);
  EXPECT_LE(FfmaRounds(large, kLarge, packing()).workspace_bytes(), most + 65536);
  EXPECT_GT(FfmaRounds(large, kLarge, packing()).count(), packing() == FfmaPacking::kAll    ? 600
                                                          : packing() == FfmaPacking::kNone ? 0
                                                                                            : 20);
  Problem many = DenseProblem(DType::kF32, 1001, 999, 1000, 10000);
  EXPECT_LE(FfmaRounds(many, kLarge, packing()).workspace_bytes(), most);
  many.m = 65;
  many.k = 65536;
  EXPECT_LE(FfmaRounds(many, kShared, packing()).workspace_bytes(), most);
}

TEST_P(FfmaRoundsTest, PackOnlyWhatMustBe) {
  Problem problem = DenseProblem(DType::kF32, 1024, 1024, 1024);
  problem.a.transposed = true;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.d}) layout->alignment_bytes = 256;
  EXPECT_EQ(FfmaRounds(problem, kLarge, packing()).launches(), 1);
  EXPECT_EQ(FfmaRounds(problem, kLarge, packing()).workspace_bytes(), 0u);
  problem.a.transposed = false;
  EXPECT_EQ(FfmaRounds(problem, kLarge, packing()).launches(), 1);
  EXPECT_EQ(FfmaRounds(problem, kLarge, packing()).packs_itself(), packing() == FfmaPacking::kAll);
  EXPECT_EQ(FfmaRounds(problem, kLarge, packing()).workspace_bytes(),
            packing() == FfmaPacking::kAll ? size_t{1024} * 1024 * 4 : 0);
  problem.b.ld = 1025;
  EXPECT_EQ(FfmaRounds(problem, kLarge, packing()).launches(), 1);
  EXPECT_EQ(FfmaRounds(problem, kStreamed, packing()).launches(),
            packing() == FfmaPacking::kAll ? 3 : 2);
  problem.alpha = 0;
  EXPECT_EQ(FfmaRounds(problem, kStreamed, packing()).launches(), 1);
  EXPECT_EQ(FfmaRounds(problem, kStreamed, packing()).workspace_bytes(), 0u);
}

// What the first tiles need first comes first: after each phase its products of all columns and of
// the first group of rows are packed, and then the other groups one after the other.
TEST(FfmaRounds, PackInTheOrderOfTiles) {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& size : {Size{5000, 1025, 75}, Size{2048, 4000, 64}, Size{33, 300, 31}}) {
    for (const bool aligned_b : {false, true}) {
      Problem problem = DenseProblem(DType::kF32, size.m, size.n, size.k);
      if (aligned_b) {
        problem.b.ld = (size.n + 3) / 4 * 4;
        problem.b.alignment_bytes = 16;
      }
      const FfmaRounds rounds(problem, kLarge, FfmaPacking::kAll);
      ASSERT_EQ(rounds.count(), 1);
      ASSERT_TRUE(rounds.packs_itself());
      EXPECT_EQ(rounds.launches(), 1);
      const std::vector<float> a(static_cast<size_t>(size.m * size.k), 1);
      const std::vector<float> b(static_cast<size_t>(problem.b.ld * size.k), 1);
      FfmaRound round = rounds.Round(0, {a.data(), b.data(), nullptr, nullptr});
      std::vector<float> workspace(rounds.workspace_bytes() / sizeof(float));
      FfmaPackCounts counts{};
      round.PlaceIn(workspace.data(), &counts);
      const FfmaOwnPacking& own = round.gemm.own;
      const auto packed = [](const Packing& p, int64_t outers, int64_t depths) {
        for (int64_t l = 0; l < std::min(depths, p.depth); ++l) {
          for (int64_t o = 0; o < std::min(outers, p.outer); ++o) {
            if (p.to[l * p.pitch + o] != 1) return false;
          }
        }
        return true;
      };
      const int64_t group_tiles =
          TilesOf(132, kFfmaTileGroup * TilesOf(size.n, 256)) * kFfmaTileGroup;
      EXPECT_EQ(Quotient(group_tiles - 1, own.by_group_tiles), 0);
      EXPECT_EQ(Quotient(group_tiles, own.by_group_tiles), 1);
      const int64_t group = group_tiles * kLarge.shape.tile_m();
      const int64_t groups = TilesOf(size.m, group);
      EXPECT_EQ(own.phases, TilesOf(size.k, kFfmaPackTile));
      int share = 0;
      for (int phase = 0; phase < own.phases; ++phase) {
        const std::vector<int> done = PackShares(own, share, share + own.of_phase);
        share += own.of_phase;
        EXPECT_EQ(std::count(done.begin(), done.end(), phase), own.of_phase);
        const int64_t depths = int64_t{phase + 1} * kFfmaPackTile;
        EXPECT_TRUE(packed(own.a, group, depths));
        EXPECT_TRUE(aligned_b || packed(own.b, size.n, depths));
      }
      for (int later = 1; later < groups; ++later) {
        const std::vector<int> done = PackShares(own, share, share + own.of_group);
        share += own.of_group;
        EXPECT_EQ(std::count(done.begin(), done.end(), own.phases + later - 1), own.of_group);
        EXPECT_TRUE(packed(own.a, (later + 1) * group, size.k));
      }
      EXPECT_EQ(share, own.shares);
      EXPECT_LE(own.phases + groups - 1, FfmaPackCounts::kMostDone);
    }
  }
}

constexpr FfmaConfig kFolded = {
    "folded", NumericsClass::kQuarters, {8, 2, 2, 1, 32, 3, 2, 8, 16, false, false, 1, 24}, 1, 1};

// As a sum that warps share, but by one block, which keeps what the quarters before have: in a part
// of the workspace that is its own what has no room in shared memory.
TEST(FfmaRounds, SumQuartersInOneBlock) {
  constexpr FfmaConfig kAtOnce = {
      "at once", NumericsClass::kQuarters, {8, 1, 1, 4, 64, 3, 2}, 1, 1};
  struct Size {
    int64_t m, n, k, batch_count;
  };
  for (const Size& size : {Size{512, 512, 512, 64}, Size{511, 365, 507, 8}, Size{41, 70, 257, 1},
                           Size{130, 512, 300, 100000}, Size{1000, 1000, 1000, 4}}) {
    const Problem problem = DenseProblem(DType::kF32, size.m, size.n, size.k, size.batch_count);
    ASSERT_TRUE(MayBeSummed(problem, NumericsClass::kQuarters)) << size.m;
    const FfmaRounds rounds(problem, kFolded, FfmaPacking::kNone);
    const FfmaRounds at_once(problem, kAtOnce, FfmaPacking::kNone);
    EXPECT_TRUE(rounds.folds());
    EXPECT_FALSE(at_once.folds());
    int64_t launches = 0;
    int64_t matrices = 0;
    for (int64_t index = 0; index < rounds.count(); ++index) {
      FfmaRound round = rounds.Round(index, {});
      FfmaGemm& g = round.gemm;
      matrices += g.p.batch_count;
      launches += g.cut_matrices > 0 ? 2 : 1;
      EXPECT_EQ(round.second_pass, g.cut_matrices > 0);
      EXPECT_EQ(g.work, (g.p.batch_count - g.cut_matrices) * g.tiles_m * g.tiles_n);
      EXPECT_EQ(g.ring_stages, 2);
      EXPECT_EQ(g.quarters, kQuarters);
      EXPECT_EQ(g.slice_length, at_once.Round(0, {}).gemm.slice_length);
      EXPECT_LT(3 * g.slice_length, g.p.k);
      EXPECT_GE(4 * g.slice_length, g.p.k);
      for (int multiprocessors : {1, 78, 132, 200}) {
        const int blocks = DealTiles(kFolded.shape, multiprocessors, &g);
        EXPECT_LE(round.offset_kept +
                      static_cast<size_t>(blocks) * kFolded.shape.kept_elsewhere() * sizeof(float),
                  rounds.workspace_bytes());
      }
      EXPECT_LE(round.offset_partial + static_cast<size_t>(int64_t{kQuarters} * g.cut_matrices *
                                                           g.p.m * g.partial_pitch) *
                                           sizeof(float),
                round.offset_kept);
      EXPECT_LE(g.work, MostTilesThatFold(kFolded.shape, size.k));
    }
    EXPECT_EQ(matrices, size.batch_count);
    EXPECT_EQ(launches, rounds.launches());
    EXPECT_EQ(at_once.Round(0, {}).gemm.quarters, 1);
  }
}

// Matrices whose tiles would be a last round are cut into quarters, where these are a short one.
TEST(FfmaRounds, CutWhatIsLeftOver) {
  struct Case {
    int64_t m, n, k, batch_count;
    int64_t cut;
  };
  for (const Case& c : {Case{512, 512, 512, 64, 0},     // 232 tiles left of 264
                        Case{1000, 1000, 1000, 4, 0},   // 256
                        Case{511, 509, 503, 20, 4},     // 56
                        Case{384, 384, 384, 32, 3},     // 24
                        Case{1000, 1000, 1000, 1, 1},   // 64 of no more
                        Case{500, 500, 500, 10, 0},     // 160
                        Case{512, 512, 512, 33, 0}}) {  // none
    const Problem problem = DenseProblem(DType::kF32, c.m, c.n, c.k, c.batch_count);
    EXPECT_EQ(FfmaRounds(problem, kFolded, FfmaPacking::kNone).cut_matrices(), c.cut)
        << c.m << " batch " << c.batch_count;
  }
}

// There is no kernel that copies A beside a B by boxes.
TEST(FfmaRounds, CopyBWhereThreadsCopyA) {
  for (int64_t size : {64, 65, 333, 1023, 1024}) {
    for (int64_t n : {size, size + 1}) {
      Problem problem = DenseProblem(DType::kF32, size, n, size);
      for (MatrixLayout* layout : {&problem.a, &problem.b}) layout->alignment_bytes = 16;
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          problem.a.transposed = transpose_a;
          problem.b.transposed = transpose_b;
          problem.a.ld = size;
          problem.b.ld = transpose_b ? size : n;
          const FfmaRound round =
              FfmaRounds(problem, kShared, FfmaPacking::kWherePays).Round(0, {});
          EXPECT_FALSE(round.feed_a == FfmaFeed::kCopying && round.feed_b == FfmaFeed::kBoxes)
              << size << " " << n;
        }
      }
    }
  }
}

// Tiles are wider than high, so of few columns they are those of D^T; but not where one warp has a
// tile.
TEST_P(FfmaRoundsTest, TurnNarrowProducts) {
  const auto round = [&](int64_t m, int64_t n, const FfmaConfig& config) {
    Problem problem = DenseProblem(DType::kF32, m, n, 1001);
    problem.d.alignment_bytes = 256;
    return FfmaRounds(problem, config, packing()).Round(0, {}).gemm;
  };
  const FfmaGemm turned = round(640, 20, kShared);
  EXPECT_TRUE(turned.turned);
  EXPECT_EQ(turned.p.m, 20);
  EXPECT_EQ(turned.tiles_m, 1);
  EXPECT_EQ(turned.tiles_n, 10);
  EXPECT_FALSE(turned.store_16);  // they would be whole rows of D^T
  EXPECT_EQ(turned.chunks, round(20, 640, kShared).chunks);
  EXPECT_FALSE(round(20, 640, kShared).turned);
  EXPECT_TRUE(round(20, 640, kShared).store_16);
  EXPECT_FALSE(round(640, 44, kShared).turned);
  EXPECT_FALSE(round(640, 20, kLarge).turned);
}

// The ring stays as large, but a smaller part of it waits to be multiplied.
TEST(FfmaKernel, HalvesStagesWhereThreadsCopyBoth) {
  FfmaShape shape{4, 1, 1, 4, 64, 2, 3, 8, 8};
  for (const bool halves : {false, true}) {
    shape.halves = halves;
    for (const FfmaFeed feed_a : {FfmaFeed::kBoxes, FfmaFeed::kTransposing, FfmaFeed::kCopying}) {
      for (const FfmaFeed feed_b : {FfmaFeed::kBoxes, FfmaFeed::kTransposing, FfmaFeed::kCopying}) {
        const FfmaKernel kernel{shape, feed_a, feed_b};
        const bool halved = halves && feed_a != FfmaFeed::kBoxes && feed_b != FfmaFeed::kBoxes;
        EXPECT_EQ(kernel.depth(), halved ? 32 : 64);
        EXPECT_EQ(kernel.stages(), halved ? 4 : 2);
        EXPECT_EQ(kernel.stages() * kernel.depth(), 128);
      }
    }
  }
}

// Tiles of which D has 16 columns at the most come last, but where cuts are counted through all.
TEST(FfmaRounds, PutNarrowTilesLast) {
  const auto narrow = [](const FfmaConfig& config, int64_t n) {
    const Problem problem = DenseProblem(DType::kF32, 300, n, 300);
    const FfmaGemm g = FfmaRounds(problem, config, FfmaPacking::kWherePays).Round(0, {}).gemm;
    return g.narrow_last;
  };
  for (int64_t n : {65, 66, 80, 129, 144, 1025}) {
    EXPECT_TRUE(narrow(kShared, n)) << n;
    EXPECT_FALSE(narrow(kCut, n)) << n;
    EXPECT_FALSE(narrow(kLarge, n)) << n;
  }
  for (int64_t n : {1, 16, 64, 81, 127, 128, 145, 1023, 1024}) {
    EXPECT_FALSE(narrow(kShared, n)) << n;
  }
}

TEST(Divisor, DividesAsDivisionDoes) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  for (int64_t divisor : std::initializer_list<int64_t>{
           1, 2, 3, 5, 7, 8, 9, 17, 132, 272, 641, 65535, 65537, (1 << 20) - 1, 1 << 30,
           (1 << 30) + 1, kMost, kMost + 2, int64_t{1} << 33}) {
    const Divisor by = DivisorOf(divisor);
    for (int64_t quotient :
         std::initializer_list<int64_t>{0, 1, 2, 3, 1000, 1 << 20, 1 << 29, kMost / divisor}) {
      for (int64_t more : {-1, 0, 1}) {
        const int64_t dividend = quotient * divisor + more;
        if (dividend < 0 || dividend >= kMost) continue;
        EXPECT_EQ(static_cast<int64_t>(static_cast<uint64_t>(dividend) * by.multiplier >> by.shift),
                  dividend / divisor)
            << dividend << " / " << divisor;
      }
    }
  }
}

// 16 bytes at a time where rows are aligned and nothing is added to them.
TEST_P(FfmaRoundsTest, StoreWholeVectors) {
  Problem problem = DenseProblem(DType::kF32, 65, 68, 71, 3);
  const auto whole = [&] {
    return FfmaRounds(problem, kLarge, packing()).Round(0, {}).gemm.store_whole;
  };
  EXPECT_FALSE(whole());  // aligned to 4 bytes
  problem.d.alignment_bytes = 16;
  EXPECT_TRUE(whole());
  problem.d.batch_stride += 1;
  EXPECT_FALSE(whole());
  problem.d.batch_stride -= 1;
  problem.beta = 1;
  EXPECT_FALSE(whole());
}

// Of the blocks behind those with whole tiles each sharer has one, and another one where its share
// goes on in the next tile: together they have every stage of every cut tile once.
TEST_P(FfmaRoundsTest, DealOutCutTiles) {
  const int64_t shapes[][3] = {{1130, 1130, 1324}, {1023, 1025, 1027}, {1309, 911, 743},
                               {66, 9000, 256},    {1600, 1500, 300},  {1200, 1200, 100000},
                               {1408, 1100, 259}};
  for (const auto& shape : shapes) {
    const Problem problem = DenseProblem(DType::kF32, shape[0], shape[1], shape[2], 3);
    ASSERT_TRUE(MayBeSummed(problem, kCut.numerics)) << shape[0];
    const StreamKOrder order(problem, kCut.numerics);
    const FfmaGemm g = FfmaRounds(problem, kCut, packing()).Round(0, {}).gemm;
    EXPECT_EQ(g.whole_tiles + g.cut_tiles, g.tiles_m * g.tiles_n);
    EXPECT_EQ(g.work, g.p.batch_count * (g.whole_tiles + g.sharers + g.second_parts));
    ASSERT_LE(g.second_parts, kMostCutTiles);
    std::vector<int> times(static_cast<size_t>(order.cut_tiles * order.stages), 0);
    const auto take = [&](int64_t sharer, int64_t tile) {
      const int64_t begin = std::max(order.Start(sharer), tile * order.stages);
      const int64_t end = std::min(order.Start(sharer + 1), (tile + 1) * order.stages);
      for (int64_t stage = begin; stage < end; ++stage) ++times[static_cast<size_t>(stage)];
      return end - begin;
    };
    for (int64_t sharer = 0; sharer < order.sharers; ++sharer) {
      EXPECT_GT(take(sharer, order.Start(sharer) / order.stages), 0);
    }
    int64_t before = order.stages;
    for (int part = 0; part < g.second_parts; ++part) {
      const int64_t tile = g.seconds[part];
      int64_t sharer = 0;
      while (order.Start(sharer + 1) <= tile * order.stages) ++sharer;
      const int64_t length = take(sharer, tile);
      EXPECT_GT(length, 0);
      EXPECT_LE(length, before);  // the longest first
      before = length;
    }
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), order.cut_tiles * order.stages)
        << shape[0];
  }
}

// Chunks of a tile meet in a cluster where all clusters find places at once, else in a second pass.
TEST_P(FfmaRoundsTest, ClusterChunksThatFit) {
  struct Case {
    Problem problem;
    int64_t chunks;
    bool clustered;
  };
  const Case cases[] = {
      {DenseProblem(DType::kF32, 128, 4096, 4096), 2, true},     // 256 blocks, two by two
      {DenseProblem(DType::kF32, 64, 2560, 2560), 4, true},      // 160 blocks
      {DenseProblem(DType::kF32, 64, 4096, 4096), 4, false},     // 256
      {DenseProblem(DType::kF32, 64, 2560, 2560, 8), 4, false},  // 160 of each matrix
      {DenseProblem(DType::kF32, 256, 256, 8192), 16, false},    // more than a cluster has
      {DenseProblem(DType::kF32, 1024, 1024, 1024), 1, false},
  };
  for (const Case& c : cases) {
    const FfmaRounds rounds(c.problem, kShared, packing());
    EXPECT_EQ(rounds.chunks(), c.chunks);
    ASSERT_EQ(rounds.count(), 1);
    const FfmaRound round = rounds.Round(0, {});
    EXPECT_EQ(round.cluster, c.clustered ? c.chunks : 1);
    EXPECT_EQ(round.gemm.together, round.cluster);
    EXPECT_EQ(round.gemm.work % round.cluster, 0);
    EXPECT_EQ(round.second_pass, c.chunks > 1 && !c.clustered);
    EXPECT_EQ(rounds.second_pass(), round.second_pass);
  }
}

INSTANTIATE_TEST_SUITE_P(Feeds, FfmaRoundsTest,
                         ::testing::Values(FfmaPacking::kAll, FfmaPacking::kWherePays,
                                           FfmaPacking::kNone));

TEST(FfmaBlocks, MakeTheFewestWaves) {
  EXPECT_EQ(BlocksInTurns(100, 264, 5), 100);
  EXPECT_EQ(BlocksInTurns(638, 264, 200), 264);
  // Two tiles each would be two waves of 189 blocks, four tile times for three.
  EXPECT_EQ(BlocksInTurns(378, 132, 2), 378);
  // Three each would be two waves of 294, six tile times for four.
  EXPECT_EQ(BlocksInTurns(880, 264, 3), 440);
}

TEST(FfmaBlocks, DealWhatIsLeftOverOneByOne) {
  constexpr FfmaShape kPairs = {8, 2, 2, 1, 32, 3, 2};
  constexpr FfmaShape kAlone = {8, 2, 4, 1, 32, 4, 1};
  const auto deal = [](const FfmaShape& shape, int work, int64_t k) {
    FfmaGemm g = {};
    g.work = work;
    g.p.k = k;
    const int blocks = DealTiles(shape, 132, &g);
    EXPECT_EQ(g.late_clocks > 0, blocks > g.in_turns);
    EXPECT_LE(g.in_turns, blocks);
    return std::pair(blocks, g.in_turns);
  };
  EXPECT_EQ(deal(kPairs, 638, 269), std::pair(374, 264));
  EXPECT_EQ(deal(kPairs, 528 + 132, 269), std::pair(264 + 132, 264));
  // None, or more than there are multiprocessors; fewer than a wave; one block a multiprocessor.
  EXPECT_EQ(deal(kPairs, 528, 269), std::pair(264, 264));
  EXPECT_EQ(deal(kPairs, 528 + 133, 269), std::pair(264, 264));
  EXPECT_EQ(deal(kPairs, 100, 269), std::pair(100, 100));
  EXPECT_EQ(deal(kAlone, 330, 269), std::pair(132, 132));
  // Where a block may take one tile, blocks come as places are free.
  EXPECT_EQ(deal(kPairs, 638, 10000), std::pair(638, 638));
}

TEST(FfmaBlocks, TakeAsLongAsTheBusiestPlace) {
  for (int64_t whole : {0, 1, 100, 132, 133, 263, 264, 300, 1024}) {
    for (int64_t cut : {1, 30, 33, 64, 66, 67, 132}) {
      std::vector<int64_t> quarters(264);
      for (int64_t tile = 0; tile < whole; ++tile) {
        quarters[static_cast<size_t>(tile) % quarters.size()] += kQuarters;
      }
      for (int64_t piece = whole; piece < whole + kQuarters * cut; ++piece) {
        quarters[static_cast<size_t>(piece) % quarters.size()] += 1;
      }
      const int64_t most = *std::max_element(quarters.begin(), quarters.end());
      EXPECT_EQ(kQuarters * QuarteredRounds(kFolded.shape, whole, cut), static_cast<double>(most))
          << whole << " whole, " << cut << " cut";
    }
  }
  EXPECT_EQ(QuarteredRounds(kFolded.shape, 528, 0), 2);
  EXPECT_LT(QuarteredRounds(kFolded.shape, 528 + 132, 0), 3);
  EXPECT_EQ(QuarteredRounds(kFolded.shape, 528 + 133, 0), 3);
}

TEST(FfmaBlocks, CrowdWhereOthersStandIdle) {
  constexpr FfmaShape kPairs = {8, 2, 2, 1, 32, 3, 2};
  constexpr FfmaShape kAlone = {8, 2, 4, 1, 32, 4, 1};
  // Blocks that stay: only if all could have had a place of their own.
  EXPECT_TRUE(Crowds(kPairs, 132, 132));
  EXPECT_FALSE(Crowds(kPairs, 132, 133));
  EXPECT_FALSE(Crowds(kAlone, 132, 1));
  // Where warps share tiles, by the last wave: up to one and a quarter a multiprocessor.
  const FfmaShape& shared = kShared.shape;
  ASSERT_EQ(shared.blocks, 2);
  for (int wave : {0, 264, 528}) {
    EXPECT_FALSE(Crowds(shared, 132, wave)) << wave;
    EXPECT_TRUE(Crowds(shared, 132, wave + 1)) << wave;
    EXPECT_TRUE(Crowds(shared, 132, wave + 165)) << wave;
    EXPECT_FALSE(Crowds(shared, 132, wave + 166)) << wave;
    EXPECT_FALSE(Crowds(shared, 132, wave + 263)) << wave;
  }
}

}  // namespace
}  // namespace gemm
