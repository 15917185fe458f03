// In which order a product's sums over k are added: the one place that decides it.
//
// Which classes a product may have and where k is cut depend on m, n, k and the type alone: never
// on the batch, the strides, the alignment, the number of multiprocessors or the kernel. So a
// result has the same bits alone and in a batch, dense and padded, and whichever kernel of its
// class ran.
//
//   sequential         one sum over all of k.
//   quarters           k in four quarters: ((q0 + q1) + q2) + q3. For results of so few tiles that
//                      the device would stand half idle: four warps share a tile. Where a batch
//                      fills it all the same, they may be summed in turn.
//   chunked_quarters   k in chunks, each summed in quarters; the chunks are added in order. For
//                      results smaller still against a long k: blocks share a tile.
//   stream_k           the result in tiles of 128 x 256, of which 132 workers sum one each at
//                      a time, sequentially. The last tiles, too few for all workers, are laid
//                      end to end along k and dealt out in equal shares: where one share ends
//                      inside a tile, its sum is cut. The parts are added in order. For results
//                      of so few tiles that a last wave would cost.
//   stream_k_quarters  the same in tiles of 64 x 64 for 264 workers, two a multiprocessor: each
//                      whole sum and each part in quarters.
//   chunked_lanes      k in chunks, each shared out in blocks of 32 products to 8 warps, whose
//                      lanes (4 up to 16 rows or columns, 2 up to 32, 1 beyond) take four
//                      products each in turn. Lanes are added as a warp's shuffles do (lane i
//                      and i + 2, then 1), the warps in order, the chunks in order. Beyond 16
//                      rows or columns, strips of 64 that fill whole waves may be one chunk, and
//                      from 17 to 32 strips are of 16 where these, or chunks of them, fit one
//                      wave. For up to 40 rows or columns, or 64 x 64 with k from 32768 on. From 17
//                      of them on quarters may be taken instead: ragged rows cost those less.
//                      A single row or column has 32 lanes instead, which take one product each in
//                      turn, and are added in halves (lane i and i + 16, then 8, 4, 2, 1). The
//                      chunks of a single result are added as those of dealt_chunks.
//   dealt_chunks       k in chunks, each dealt out to 4 ways in blocks of 8 products: way w has
//                      every fourth block from the w-th on. The ways are added in order; the
//                      chunks in 32 lanes, every 32nd chunk from the i-th on in lane i, and the
//                      lanes in order.
//   chunks             f64: k in chunks, each summed sequentially; the chunks are added in order.
//                      For results of so few tiles that the device would stand half idle.
//
// Within a quarter, part, lane or chunk: acc = 0; for its l ascending: acc = fma(a, b, acc). Lanes
// go on to the end of the block, or of its half of 16 beyond 32 rows, with products 0 * 0, but for
// those of a single row or column.

#ifndef GEMMD_KERNELS_FAMILIES_SUM_ORDER_H_
#define GEMMD_KERNELS_FAMILIES_SUM_ORDER_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/gemm.h"
#include "kernels/kernel.h"

namespace gemm {

inline constexpr int kQuarters = 4;
inline constexpr int kQuarterGranule = 8;  // a quarter's length is a multiple of it
inline constexpr int kLaneWarps = 8;
inline constexpr int kLaneBlock = 32;   // consecutive products of a warp
inline constexpr int kLaneGranule = 4;  // of a lane
inline constexpr int kLaneRound = kLaneWarps * kLaneBlock;
inline constexpr int kLineLanes = 32;  // of a single row or column
inline constexpr int64_t kMostSkinny = 40;
// A result of up to 64 x 64 goes the same way if k is long.
inline constexpr int64_t kMostSkinnyTile = 64;

// By the short side of the result: the lanes of a warp, and what a block has of the long side.
constexpr int LanesOf(int64_t narrow) { return narrow <= 16 ? 4 : narrow <= 32 ? 2 : 1; }
constexpr int SkinnyStrip(int64_t narrow) { return narrow <= 16 ? 32 : 64; }
inline constexpr int kNarrowStrip = 16;         // or this
inline constexpr int kMostSingleChunks = 1024;  // of a single result
inline constexpr int kMostSingleTogether = 16;  // of those, in one block

// Up to here a product is small.
inline constexpr int64_t kSmallWide = 512;
inline constexpr int64_t kSmallDepth = 256;

inline int64_t TilesOf(int64_t size, int64_t tile) {
  return size / tile + (size % tile != 0 ? 1 : 0);
}

// Tiles of 64 x 64 results, of which a multiprocessor of an H200 holds two.
inline int64_t QuarterTiles(const Problem& problem) {
  return TilesOf(problem.m, 64) * TilesOf(problem.n, 64);
}

// Up to here the second pass adds an element's chunks in one thread, beyond by a kernel that takes
// longer: add_chunks.cu.
inline constexpr int kFewChunks = 16;

// Blocks of a cluster, the most on whatever device.
inline constexpr int kMostTogether = 8;

// So many clusters of that many blocks find places at once on the 132 multiprocessors of an H200,
// if each holds so many blocks: two near each other are always found, more are not everywhere. One
// cluster more waits, or shares its places while others stay empty. As
// cudaOccupancyMaxActiveClusters says, and blocks that do nothing but stay (2026-11-30,
// bench/results/clusters.jsonl).
inline constexpr int kMostBlocksEach = 3;
inline constexpr int64_t kClustersAtOnce[kMostBlocksEach][kMostTogether + 1] = {
    {0, 132, 66, 39, 30, 22, 17, 15, 15},
    {0, 264, 132, 79, 62, 47, 39, 32, 30},
    {0, 396, 198, 124, 92, 69, 62, 47, 45},
};

// Whether the chunks of a tile run as a cluster, which spares a second pass; the bits are the same.
// Of more than two it is faster where all find places at once and none share that need not, in 584
// of 605 cases, by 5 % in the mean; elsewhere slower in 176 of 177, by 35 % (times of both ways,
// H200, 2026-11-30, bench/results/chunk_lengths_f32.jsonl).
inline bool ChunksMeetInClusters(int64_t chunks, int64_t blocks, int blocks_a_multiprocessor) {
  constexpr int64_t kMultiprocessors = 132;
  if (chunks == 2) return true;
  if (chunks < 2 || chunks > kMostTogether) return false;
  const int64_t each = TilesOf(blocks, kMultiprocessors);
  return each <= std::min(blocks_a_multiprocessor, kMostBlocksEach) &&
         blocks <= chunks * kClustersAtOnce[each - 1][chunks];
}

// Of up to 40 columns and more rows a sum in quarters is computed as D^T = B^T A^T: tiles are wider
// than high.
inline bool IsTurned(const Problem& problem) {
  return problem.n <= kMostSkinny && problem.n < problem.m;
}

// How long a sum in quarters takes on an H200, by the tiles that it is computed in: fitted to 4400
// times of 152 products with k cut in many ways (2026-11-30), as what their times differ by.
struct QuarterTile {
  int64_t m;
  int64_t n;
  int together;          // on a multiprocessor
  double begin;          // in products of its sum
  double math_fraction;  // of the peak, if so many are together
  double lone_fraction;  // if one is alone

  // `count` of them on a multiprocessor, each of so many products, in microseconds.
  double Together(int64_t count, double products) const {
    constexpr double kFmasAMicrosecond = 128 * 1900;
    const double fraction = lone_fraction + static_cast<double>(count - 1) / (together - 1) *
                                                (math_fraction - lone_fraction);
    return static_cast<double>(count * m * n) * (products + begin) / (kFmasAMicrosecond * fraction);
  }
};
inline constexpr QuarterTile kQuarterTiles[] = {
    {64, 64, 2, 44, 0.746, 0.605}, {48, 64, 2, 46, 0.751, 0.660}, {32, 64, 3, 12, 0.686, 0.527},
    {96, 48, 2, 59, 0.787, 0.641}, {48, 96, 2, 51, 0.806, 0.666},
};

// Of `tiles` tiles with k in chunks of `length`.
inline double QuarterMicroseconds(const QuarterTile& tile, int64_t tiles, int64_t chunks,
                                  int64_t length) {
  constexpr int64_t kMultiprocessors = 132;
  constexpr int64_t kStage = 64;
  constexpr double kClusters = 1.3;
  constexpr double kSecondPass = 1.19;
  constexpr double kManyChunks = 2.8;          // more
  constexpr double kSumsAMicrosecond = 3.8e5;  // of chunks, written and read
  constexpr double kPaired = 0.6;              // of what is left over, where it is a wave
  constexpr double kPartOfAStage = 0.27;       // more for what does not fill one
  const int64_t blocks = tiles * chunks;
  const int64_t rounds = blocks / (kMultiprocessors * tile.together);
  const int64_t left = blocks - rounds * kMultiprocessors * tile.together;
  const int64_t deep = TilesOf(left, kMultiprocessors);
  const double products =
      static_cast<double>(length) + kPartOfAStage * static_cast<double>(length % kStage);
  double time = static_cast<double>(rounds) * tile.Together(tile.together, products);
  if (deep > 0) time += tile.Together(deep, products);
  if (rounds > 0 && deep > 0 && deep < tile.together) {
    time += kPaired *
            (static_cast<double>(left) / kMultiprocessors - static_cast<double>(deep - 1)) *
            (tile.Together(deep + 1, products) - tile.Together(deep, products));
  }
  if (chunks == 1) return time;
  if (ChunksMeetInClusters(chunks, blocks, tile.together)) return time + kClusters;
  return time + kSecondPass + (chunks > kFewChunks ? kManyChunks : 0) +
         static_cast<double>(blocks * tile.m * tile.n) / kSumsAMicrosecond;
}

// The chunks of chunked_quarters: as long as should end first, in tiles of whatever size; all of k
// if that does, or where tiles fill a wave without chunks: of 16 such products that were measured
// both ways 14 took up to 1.4 times as long with them (H200, 2026-11-30).
inline int64_t BestQuarterChunkLength(const Problem& problem) {
  constexpr int64_t kGranule = int64_t{kQuarters} * kQuarterGranule;
  constexpr int64_t kShortest = 96;
  constexpr int64_t kPlaces = 264;  // of tiles of 64 x 64
  const int64_t k = std::max<int64_t>(1, problem.k);
  const bool turned = IsTurned(problem);
  int64_t tiles[std::size(kQuarterTiles)];
  for (size_t t = 0; t < std::size(kQuarterTiles); ++t) {
    tiles[t] = TilesOf(turned ? problem.n : problem.m, kQuarterTiles[t].m) *
               TilesOf(turned ? problem.m : problem.n, kQuarterTiles[t].n);
  }
  const int64_t most_chunks =
      tiles[0] > kPlaces ? 1 : std::min({int64_t{256}, k / kShortest, 4 * kPlaces / tiles[0]});
  int64_t best = 0;
  double least = 0;
  // Numbers that differ by an eighth.
  for (int64_t most = 1; most <= std::max<int64_t>(1, most_chunks);
       most += std::max<int64_t>(1, most / 8)) {
    const int64_t length = TilesOf(TilesOf(k, most), kGranule) * kGranule;
    const int64_t chunks = TilesOf(k, length);
    for (size_t t = 0; t < std::size(kQuarterTiles); ++t) {
      const double time = QuarterMicroseconds(kQuarterTiles[t], tiles[t], chunks, length);
      if (best > 0 && time >= least) continue;
      best = length;
      least = time;
    }
  }
  return best;
}

// The same. A choice asks for one product's many times, and each takes a microsecond: the last
// answer is kept.
inline int64_t QuarterChunkLength(const Problem& problem) {
  struct Answer {
    int64_t m = -1;
    int64_t n = -1;
    int64_t k = -1;
    int64_t length = 1;
  };
  thread_local Answer last;
  if (last.m != problem.m || last.n != problem.n || last.k != problem.k) {
    last = {problem.m, problem.n, problem.k, BestQuarterChunkLength(problem)};
  }
  return last.length;
}

// The class of quarters by its sizes.
inline NumericsClass QuartersOf(const Problem& problem) {
  return QuarterChunkLength(problem) < problem.k ? NumericsClass::kChunkedQuarters
                                                 : NumericsClass::kQuarters;
}

// The class of those that share k by its sizes, or sequential.
inline NumericsClass NumericsOf(const Problem& problem) {
  const int64_t narrow = std::min(problem.m, problem.n);
  const int64_t wide = std::max(problem.m, problem.n);
  // Shorter sums leave nothing to share, and f64 has chunks alone: MayBeF64Chunks.
  if (problem.dtype != DType::kF32 || problem.k < 128) return NumericsClass::kSequential;
  // Here a launch and the first wait for memory take longer than the sum. One class for them all
  // lets many of different sizes share a launch, and a batch of them run as fast as any kernel can.
  if (wide <= kSmallWide && problem.k <= kSmallDepth) return NumericsClass::kSequential;
  if (narrow > kMostSkinny && wide <= kSmallWide && problem.k <= 2 * kSmallDepth) {
    return NumericsClass::kQuarters;
  }
  if (narrow <= kMostSkinny ||
      (narrow <= kMostSkinnyTile && wide <= kMostSkinnyTile && problem.k >= 32768)) {
    return NumericsClass::kChunkedLanes;
  }
  // From 640 tiles on, tiles of 128 x 128 and more fill it alone, unless the result is too narrow.
  if (QuarterTiles(problem) > 640 && narrow > 64) return NumericsClass::kSequential;
  return QuartersOf(problem);
}

// The products of each quarter but the last of so many, where they are not part of chunks.
inline int64_t QuarterLength(int64_t products) {
  return std::max<int64_t>(1, TilesOf(products, int64_t{kQuarters} * kQuarterGranule)) *
         kQuarterGranule;
}

// How stream_k and stream_k_quarters cut: tiles are counted along m in groups of 8 tile rows, the
// cut ones last.
struct StreamKOrder {
  static constexpr int64_t kShort = 128;  // sides of a tile
  static constexpr int64_t kLong = 256;
  static constexpr int64_t kQuartersTile = 64;
  static constexpr int64_t kStage = 32;  // cuts of k are multiples of it
  static constexpr int64_t kQuartersStage = 64;
  static constexpr int64_t kWorkers = 132;
  static constexpr int64_t kGroup = 8;
  static constexpr int64_t kLeastShare = 4;  // stages

  bool upright;  // tiles of 256 x 128
  int64_t stage;
  int64_t tile_m;
  int64_t tile_n;
  int64_t tiles_m;
  int64_t tiles_n;
  int64_t stages;       // of a tile
  int64_t whole_tiles;  // a multiple of the workers
  int64_t cut_tiles;    // fewer than there are workers
  int64_t sharers;      // workers that share the cut ones

  explicit StreamKOrder(const Problem& problem, NumericsClass numerics = NumericsClass::kStreamK) {
    const bool quarters = numerics == NumericsClass::kStreamKQuarters;
    upright = !quarters && TilesOf(problem.m, kLong) * TilesOf(problem.n, kShort) <
                               TilesOf(problem.m, kShort) * TilesOf(problem.n, kLong);
    stage = quarters ? kQuartersStage : kStage;
    tile_m = quarters ? kQuartersTile : upright ? kLong : kShort;
    tile_n = quarters ? kQuartersTile : upright ? kShort : kLong;
    tiles_m = TilesOf(problem.m, tile_m);
    tiles_n = TilesOf(problem.n, tile_n);
    stages = TilesOf(problem.k, stage);
    const int64_t workers = quarters ? 2 * kWorkers : kWorkers;
    whole_tiles = tiles_m * tiles_n / workers * workers;
    cut_tiles = tiles_m * tiles_n - whole_tiles;
    sharers = std::min(workers, std::max(cut_tiles, cut_tiles * stages / kLeastShare));
  }

  // The first stage of a sharer's share, counted through the cut tiles. A share is at most as long
  // as a tile.
  int64_t Start(int64_t sharer) const { return sharer * (cut_tiles * stages) / sharers; }

  // The number of a tile by its row and column of tiles.
  int64_t TileAt(int64_t row, int64_t column) const {
    const int64_t first = row / kGroup * kGroup;
    return first * tiles_n + column * std::min(kGroup, tiles_m - first) + row - first;
  }
};

// Only where a last wave costs, and where operands copied into the workspace stay below 1 GiB.
inline bool MayBeStreamK(const Problem& problem) {
  constexpr int64_t kMostElements = int64_t{1} << 28;
  if (problem.dtype != DType::kF32 || problem.k < 512) return false;
  if (std::min(problem.m, problem.n) <= 64) return false;
  if (std::max(problem.m, problem.n) > kMostElements / problem.k) return false;
  return StreamKOrder(problem).cut_tiles > 0;
}

// Where tiles of 64 x 64 are few enough for a last wave to cost, and no more than half a wave is
// left over: more would take as long whole (H200, 2026-11-30).
inline bool MayBeStreamKQuarters(const Problem& problem) {
  constexpr int64_t kMostTiles = 1320;
  constexpr int64_t kMostElements = int64_t{1} << 28;
  if (problem.dtype != DType::kF32 || problem.k < 256) return false;
  if (std::min(problem.m, problem.n) <= 64) return false;
  if (TilesOf(problem.m, 64) > kMostTiles || TilesOf(problem.n, 64) > kMostTiles) return false;
  if (QuarterTiles(problem) > kMostTiles) return false;
  if (std::max(problem.m, problem.n) > kMostElements / problem.k) return false;
  const StreamKOrder order(problem, NumericsClass::kStreamKQuarters);
  return order.whole_tiles > 0 && order.cut_tiles > 0 && order.cut_tiles <= StreamKOrder::kWorkers;
}

// The chunks of dealt_chunks: of each tile of 64 x 64 as many as fill 132 multiprocessors.
inline constexpr int kDeepTile = 64;
inline constexpr int kDeepStage = 32;  // chunks are multiples of it
inline constexpr int kDeepWays = 4;
inline constexpr int kDeepBlock = 8;  // consecutive products of a way
inline constexpr int kDeepChunkLanes = 32;
inline constexpr int kDeepMostChunks = 132;

struct DeepOrder {
  int64_t tiles;
  int64_t chunk_length;
  int64_t chunks;

  explicit DeepOrder(const Problem& problem) {
    const int64_t k = std::max<int64_t>(1, problem.k);
    tiles = TilesOf(problem.m, kDeepTile) * TilesOf(problem.n, kDeepTile);
    const int64_t most = std::max<int64_t>(1, kDeepMostChunks / std::max<int64_t>(1, tiles));
    chunk_length = std::max<int64_t>(2, TilesOf(TilesOf(k, most), kDeepStage)) * kDeepStage;
    chunks = TilesOf(k, chunk_length);
  }
};

// Where every tile of 64 x 64 has two chunks at least, and the tiles are not too narrow for them.
inline bool MayBeDealtChunks(const Problem& problem) {
  constexpr int64_t kMostTiles = kDeepMostChunks / 2;
  if (problem.dtype != DType::kF32 || problem.k < 1024) return false;
  if (std::min(problem.m, problem.n) <= 16) return false;
  if (std::max(problem.m, problem.n) > kMostTiles * kDeepTile) return false;
  const DeepOrder order(problem);
  return order.tiles <= kMostTiles && order.chunks > 1;
}

// The chunks of f64: of each tile of 64 x 64 as many as fill 132 multiprocessors.
inline int64_t F64ChunkLength(const Problem& problem) {
  constexpr int64_t kMultiprocessors = 132;
  constexpr int64_t kMostChunks = 32;
  constexpr int64_t kShortest = 128;
  constexpr int64_t kGranule = 16;
  const int64_t k = std::max<int64_t>(1, problem.k);
  const int64_t tiles = QuarterTiles(problem);
  const int64_t most = std::clamp<int64_t>(
      std::min(kMultiprocessors / std::max<int64_t>(1, tiles), k / kShortest), 1, kMostChunks);
  return TilesOf(TilesOf(k, most), kGranule) * kGranule;
}

inline bool MayBeF64Chunks(const Problem& problem) {
  constexpr int64_t kMostSide = int64_t{1} << 20;  // so that tiles can be counted
  return problem.dtype == DType::kF64 && std::max(problem.m, problem.n) <= kMostSide &&
         F64ChunkLength(problem) < problem.k;
}

// Whether a product of 17 to 40 rows or columns may be summed so too: with rows of any alignment
// that takes less time than lanes.
inline bool MayBeNarrowQuarters(const Problem& problem, NumericsClass numerics) {
  if (numerics != NumericsClass::kQuarters && numerics != NumericsClass::kChunkedQuarters) {
    return false;
  }
  const int64_t narrow = std::min(problem.m, problem.n);
  return narrow > 16 && narrow <= kMostSkinny &&
         NumericsOf(problem) == NumericsClass::kChunkedLanes && QuartersOf(problem) == numerics;
}

// Any product may be summed sequentially.
inline bool MayBeSummed(const Problem& problem, NumericsClass numerics) {
  return numerics == NumericsClass::kSequential || MayBeNarrowQuarters(problem, numerics) ||
         (numerics == NumericsClass::kStreamK           ? MayBeStreamK(problem)
          : numerics == NumericsClass::kStreamKQuarters ? MayBeStreamKQuarters(problem)
          : numerics == NumericsClass::kDealtChunks     ? MayBeDealtChunks(problem)
          : numerics == NumericsClass::kChunks          ? MayBeF64Chunks(problem)
                                                        : numerics == NumericsOf(problem));
}

// The chunks of chunked_lanes: as many as should end first on 132 multiprocessors. Times are in
// products of a block. Up to 16 rows blocks wait for the memory: 120 of them ask as much of it as
// it gives, and more share it without regard to waves. Beyond, strips that fill whole waves may
// have all of k to themselves, while the others are cut. Two chunks meet in a cluster, more in a
// second pass.
struct LaneOrder {
  int64_t strip;  // of the long side, a block
  int64_t strips;
  int64_t whole_strips = 0;  // the first ones, in one chunk; a multiple of 132
  int64_t chunks = 1;        // of each of the others
  int64_t chunk_length = 0;

  explicit LaneOrder(const Problem& problem) {
    constexpr int64_t kMultiprocessors = 132;
    const int64_t narrow = std::min(problem.m, problem.n);
    const int64_t k = std::max<int64_t>(1, problem.k);
    if (narrow == 1) {
      CutLine(std::max(problem.m, problem.n), k);
      return;
    }
    const bool few_rows = narrow <= 16;
    const double begin = few_rows ? 400 : 140;
    const double cluster = few_rows ? 150 : 70;
    const double second_pass = few_rows ? 600 : 180;
    const int64_t wide = std::max(problem.m, problem.n);
    strip = SkinnyStrip(narrow);
    strips = TilesOf(wide, strip);
    double least = 0;
    // Numbers that differ by a quarter; of more than 16 rows the largest too.
    const int64_t most_chunks =
        std::clamp<int64_t>(few_rows ? k / kLaneRound : TilesOf(k, kLaneRound), 1, 256);
    const auto after = [few_rows, most_chunks](int64_t chunks_at_most) {
      const int64_t more = chunks_at_most + std::max<int64_t>(1, chunks_at_most / 4);
      return few_rows || chunks_at_most == most_chunks ? more : std::min(more, most_chunks);
    };
    const auto consider = [&](int64_t whole) {
      for (int64_t most = 1; most <= most_chunks; most = after(most)) {
        const int64_t length = TilesOf(TilesOf(k, most), kLaneRound) * kLaneRound;
        const int64_t count = TilesOf(k, length);  // fewer where they come out longer
        const auto blocks = static_cast<double>((strips - whole) * count);
        const double waves =
            few_rows ? std::max(1.0, blocks / 120) : std::ceil(blocks / kMultiprocessors);
        const int64_t whole_waves = whole / kMultiprocessors;
        const double time = static_cast<double>(whole_waves) * (static_cast<double>(k) + begin) +
                            waves * (static_cast<double>(length) + begin) +
                            (count > 2 || (count > 1 && whole > 0) ? second_pass
                             : count > 1                           ? cluster
                                                                   : 0);
        if (chunk_length == 0 || time < least) {
          whole_strips = whole;
          chunks = count;
          chunk_length = length;
          least = time;
        }
      }
    };
    consider(0);
    const int64_t whole = strips / kMultiprocessors * kMultiprocessors;
    if (!few_rows && whole > 0 && whole < strips) consider(whole);
    if (chunks == 1) whole_strips = 0;
    // Narrower strips may fit one wave, with all of k or in chunks. A product of one takes this
    // part of a wide one.
    constexpr double kOfWide = 0.24;
    const int64_t narrow_strips = TilesOf(wide, kNarrowStrip);
    for (int64_t most = 1; LanesOf(narrow) == 2 && most <= most_chunks; most = after(most)) {
      const int64_t length = TilesOf(TilesOf(k, most), kLaneRound) * kLaneRound;
      const int64_t count = TilesOf(k, length);
      if (narrow_strips * count > kMultiprocessors) break;
      const double time = kOfWide * static_cast<double>(count > 1 ? length : k) + begin +
                          (count > 2   ? second_pass
                           : count > 1 ? cluster
                                       : 0);
      if (time < least) {
        strip = kNarrowStrip;
        strips = narrow_strips;
        whole_strips = 0;
        chunks = count;
        chunk_length = length;
        least = time;
      }
    }
  }

  // A single row or column. Times are in products of a strip that a multiprocessor reads alone, of
  // which the memory gives 98 at once; rows that begin anywhere take a fifth more of the former.
  // Two chunks may be summed at once beside each other. More are left to a second pass, which takes
  // longer from 17 on. Of a single result chunks alone are shared out.
  void CutLine(int64_t wide, int64_t k) {
    constexpr int64_t kMultiprocessors = 132;
    constexpr double kTogether = 98;
    constexpr double kRagged = 1.2;
    constexpr double kSecondPass = 600;
    constexpr double kMany = 900;
    constexpr int64_t kMostShared = 16;
    constexpr int64_t kShortest = 512;
    constexpr int64_t kLong = 2048;     // shorter sums gain less than rows with k contiguous lose
    constexpr int64_t kOneWarp = 1024;  // products that a warp has under way
    strip = SkinnyStrip(1);
    strips = TilesOf(wide, strip);
    const auto cut = [this, k](int64_t most) {
      chunk_length = TilesOf(TilesOf(k, most), kLaneRound) * kLaneRound;
      chunks = TilesOf(k, chunk_length);
    };
    if (wide == 1) {
      cut(kMostSingleChunks);
      if (k <= kMostSingleTogether * kOneWarp) {
        chunk_length = kOneWarp;
        chunks = TilesOf(k, chunk_length);
      }
      return;
    }
    int64_t best = k >= kOneWarp ? 2 : 1;
    if (strips < kMultiprocessors && k >= kLong) {
      double least = kRagged * static_cast<double>(k);
      for (int64_t most = 3; most <= std::min<int64_t>(256, k / kShortest);
           most += std::max<int64_t>(1, most / 4)) {
        cut(most);
        const double alone =
            kRagged *
            static_cast<double>(TilesOf(strips * chunks, kMultiprocessors) * chunk_length);
        const double time = std::max(alone, static_cast<double>(strips * k) / kTogether) +
                            kSecondPass + (chunks > kMostShared ? kMany : 0);
        if (time >= least) continue;
        best = most;
        least = time;
      }
    }
    cut(best);
  }

  // The chunks of a strip's results, by their row or column along the long side.
  int64_t LengthAt(int64_t index, int64_t k) const {
    return index < whole_strips ? std::max<int64_t>(1, k) : chunk_length;
  }
};

// Products in every chunk but the last, which has what is left: a multiple of 32 for chunks of
// quarters and those that are dealt out, of 256 for the strips of lanes that are cut.
inline int64_t ChunkLength(NumericsClass numerics, const Problem& problem) {
  const int64_t k = problem.k;
  switch (numerics) {
    case NumericsClass::kSequential:
    case NumericsClass::kStreamK:
      break;
    case NumericsClass::kQuarters:
    case NumericsClass::kStreamKQuarters:
      return kQuarters * QuarterLength(k);
    case NumericsClass::kChunkedQuarters:
      return QuarterChunkLength(problem);
    case NumericsClass::kChunkedLanes:
      return LaneOrder(problem).chunk_length;
    case NumericsClass::kDealtChunks:
      return DeepOrder(problem).chunk_length;
    case NumericsClass::kChunks:
      return F64ChunkLength(problem);
  }
  return std::max<int64_t>(1, k);
}

inline int64_t ChunkCount(NumericsClass numerics, const Problem& problem) {
  return std::max<int64_t>(1, TilesOf(problem.k, ChunkLength(numerics, problem)));
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SUM_ORDER_H_
