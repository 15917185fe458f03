// In which order a product is summed: which classes it may have, and where k is cut.

#include "kernels/families/sum_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace gemm {
namespace {

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

// From 17 rows or columns on there is a choice, whichever of both they are.
TEST(SumOrder, LetsNarrowProductsBeSummedInQuarters) {
  const auto may = [](int64_t m, int64_t n, int64_t k, NumericsClass numerics) {
    return MayBeSummed(DenseProblem(DType::kF32, m, n, k), numerics);
  };
  for (int64_t narrow : {16, 17, 40}) {
    for (int64_t wide : {100, 3000}) {
      for (int64_t k : {700, 5252}) {
        EXPECT_TRUE(may(narrow, wide, k, NumericsClass::kChunkedLanes));
        EXPECT_EQ(may(narrow, wide, k, NumericsClass::kChunkedQuarters), narrow > 16);
        EXPECT_EQ(may(wide, narrow, k, NumericsClass::kChunkedQuarters), narrow > 16);
        EXPECT_FALSE(may(narrow, wide, k, NumericsClass::kQuarters));
        EXPECT_EQ(
            ChunkCount(NumericsClass::kChunkedQuarters, DenseProblem(DType::kF32, narrow, wide, k)),
            ChunkCount(NumericsClass::kChunkedQuarters,
                       DenseProblem(DType::kF32, wide, narrow, k)));
      }
    }
    // Of enough tiles k is not cut.
    EXPECT_EQ(may(narrow, 100000, 1000, NumericsClass::kQuarters), narrow > 16);
    EXPECT_FALSE(may(narrow, 100000, 1000, NumericsClass::kChunkedQuarters));
    // Short sums have one class.
    EXPECT_FALSE(may(narrow, 3000, 127, NumericsClass::kQuarters));
    EXPECT_FALSE(may(narrow, 500, 256, NumericsClass::kChunkedQuarters));
  }
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
  EXPECT_TRUE(ChunksMeetInClusters(4, 120, 2));
  EXPECT_FALSE(ChunksMeetInClusters(4, 124, 2));  // some would share a multiprocessor
  EXPECT_FALSE(ChunksMeetInClusters(4, 132, 2));
  EXPECT_TRUE(ChunksMeetInClusters(4, 136, 2));  // as some do in any case
  EXPECT_FALSE(ChunksMeetInClusters(4, 136, 1));
  EXPECT_TRUE(ChunksMeetInClusters(6, 102, 2));
  EXPECT_FALSE(ChunksMeetInClusters(6, 108, 2));  // which the 18th cluster of six does
  EXPECT_TRUE(ChunksMeetInClusters(6, 234, 2));
  EXPECT_TRUE(ChunksMeetInClusters(7, 105, 2));
  EXPECT_FALSE(ChunksMeetInClusters(7, 112, 2));
  EXPECT_TRUE(ChunksMeetInClusters(8, 240, 2));
  EXPECT_FALSE(ChunksMeetInClusters(8, 248, 2));
  EXPECT_TRUE(ChunksMeetInClusters(3, 372, 3));
  EXPECT_FALSE(ChunksMeetInClusters(3, 375, 3));
  EXPECT_FALSE(ChunksMeetInClusters(3, 372, 2));
  EXPECT_FALSE(ChunksMeetInClusters(3, 400, 4));  // of four on each nothing is known
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
  EXPECT_EQ(chunks(1, 4096, 4096), 2);
  EXPECT_EQ(chunks(16, 2048, 2048), 2);
  EXPECT_EQ(chunks(32, 4096, 4096), 2);
  EXPECT_EQ(chunks(6144, 4, 2048), 1);
  EXPECT_EQ(chunks(8, 14336, 4096), 1);
  EXPECT_EQ(chunks(35, 8457, 4096), 16);
  EXPECT_EQ(chunks(35, 700, 2048), 8);
  EXPECT_EQ(chunks(1, 100, 255), 1);
  EXPECT_EQ(chunks(1, 100, 256), 1);
  EXPECT_EQ(chunks(1, 100, 1023), 1);
  EXPECT_EQ(chunks(1, 100, 1024), 2);
  EXPECT_EQ(chunks(1, 2048, 2047), 2);
  EXPECT_EQ(chunks(1, 2048, 2048), 4);
  EXPECT_EQ(chunks(1, 515, 3001), 4);
  EXPECT_EQ(chunks(1, 128, 20000), 16);
  EXPECT_EQ(chunks(1, 3001, 20001), 4);
  EXPECT_EQ(chunks(1, 4225, 20001), 2);
  EXPECT_EQ(chunks(64, 64, 65536), 128);
  EXPECT_EQ(chunks(8, 512, 500000), 8);
  EXPECT_EQ(chunks(1, 1, 1000), 1);
  EXPECT_EQ(chunks(1, 1, 16384), 16);
  EXPECT_EQ(chunks(1, 1, 100001), 391);
  EXPECT_EQ(chunks(1, 1, 500000), 977);
  EXPECT_LE(chunks(1, 1, int64_t{1} << 40), kMostSingleChunks);
  EXPECT_EQ(chunks(1, int64_t{1} << 40, 4096), 2);
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

// Chunks of f64: whole slabs that cover k, as many as fill a device, where they are two at least.
TEST(SumOrder, CutsF64IntoChunksThatFillTheDevice) {
  const auto chunks = [](int64_t m, int64_t n, int64_t k) {
    const Problem problem = DenseProblem(DType::kF64, m, n, k);
    const int64_t length = ChunkLength(NumericsClass::kChunks, problem);
    const int64_t count = ChunkCount(NumericsClass::kChunks, problem);
    EXPECT_EQ(length % 16, 0) << m << " " << n << " " << k;
    EXPECT_GE(length * count, k);
    EXPECT_LT(length * (count - 1), k);
    EXPECT_EQ(MayBeSummed(problem, NumericsClass::kChunks), count > 1);
    return count;
  };
  EXPECT_EQ(chunks(64, 64, 65536), 32);
  EXPECT_EQ(chunks(256, 256, 8192), 8);
  EXPECT_EQ(chunks(1, 4096, 4096), 2);
  EXPECT_EQ(chunks(17, 33, 257), 2);
  EXPECT_EQ(chunks(64, 64, 255), 1);
  EXPECT_EQ(chunks(128, 4096, 4096), 1);
  EXPECT_EQ(chunks(4096, 4096, 4096), 1);
  EXPECT_FALSE(MayBeSummed(DenseProblem(DType::kF32, 64, 64, 65536), NumericsClass::kChunks));
  EXPECT_FALSE(
      MayBeSummed(DenseProblem(DType::kF64, 1, int64_t{1} << 40, 65536), NumericsClass::kChunks));
}

LaneOrder OrderOf(int64_t m, int64_t n, int64_t k) {
  return LaneOrder(DenseProblem(DType::kF32, m, n, k));
}

// Strips that fill whole waves have all of k, and those left over are cut.
TEST(SumOrder, LeavesLanesOfWholeWavesUncut) {
  EXPECT_EQ(OrderOf(35, 8457, 4096).strips, 133);
  EXPECT_EQ(OrderOf(35, 8457, 4096).whole_strips, 132);
  EXPECT_EQ(OrderOf(35, 8457, 4096).LengthAt(131, 4096), 4096);
  EXPECT_EQ(OrderOf(35, 8457, 4096).LengthAt(132, 4096), 256);
  EXPECT_EQ(OrderOf(32, 14336, 4096).whole_strips, 132);
  EXPECT_EQ(OrderOf(32, 4096, 4096).whole_strips, 0);
  // One wave of strips of 64.
  EXPECT_EQ(OrderOf(32, 8448, 4096).whole_strips, 0);
  EXPECT_EQ(OrderOf(32, 8448, 4096).chunks, 1);
  EXPECT_EQ(OrderOf(8, 14336, 4096).whole_strips, 0);
}

// Strips of 16 that fit one wave have all of k, unless chunks of them do too, or k is so long that
// wide strips in chunks take less time.
TEST(SumOrder, TakesNarrowStripsOfLanesWhereTheyFitAWave) {
  EXPECT_EQ(OrderOf(1760, 32, 1760).strip, 16);
  EXPECT_EQ(OrderOf(1760, 32, 1760).strips, 110);
  EXPECT_EQ(OrderOf(1760, 32, 1760).chunks, 1);
  EXPECT_EQ(OrderOf(17, 2112, 1000).strips, 132);
  EXPECT_EQ(OrderOf(17, 2113, 1000).strip, 64);
  EXPECT_EQ(OrderOf(953, 19, 1125).strip, 16);
  EXPECT_EQ(OrderOf(953, 19, 1125).chunks, 2);
  EXPECT_EQ(OrderOf(19, 266, 2807).strips, 17);
  EXPECT_EQ(OrderOf(19, 266, 2807).chunks, 6);
  EXPECT_EQ(OrderOf(31, 59, 7098).chunks, 28);
  EXPECT_EQ(OrderOf(16, 1760, 1760).strip, 32);
  EXPECT_EQ(OrderOf(33, 1760, 1760).strip, 64);
  EXPECT_EQ(OrderOf(32, 1760, 100000).strip, 64);
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

}  // namespace
}  // namespace gemm
