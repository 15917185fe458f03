#include "kernels/families/ffma_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/families/cost_model.h"
#include "kernels/families/ffma_blocks.h"
#include "kernels/families/ffma_rounds.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// NVIDIA H200, 2026-11-30. Where one warp has a tile's whole sums: starting, packing, the second
// pass, and writing D, at parts of the memory's rate; blocks stay and take other tiles meanwhile.
// Parts of cut tiles stay in the L2 cache.
constexpr double kStartSeconds = 3.5e-6;
constexpr double kPackSeconds = 3.7e-6;
constexpr double kPackFraction = 0.8;
// In the kernel that multiplies, where arithmetic hides most of it.
constexpr double kPackItselfSeconds = 4e-6;
constexpr double kPackItselfFraction = 2.3;
constexpr double kAddPartsSeconds = 5.1e-6;
constexpr double kPartsFraction = 2.5;
constexpr double kResultFraction = 2;
// How often a wave that is left over finds two places on one multiprocessor: where two blocks share
// one, the second begins half a tile late (FfmaBeginLate), which keeps longer sums apart. Of
// shorter ones a part of a wave does.
constexpr int64_t kApart = 256;
constexpr double kPairedIfShort = 8;
constexpr double kPairedIfApart = 0.2;
// Where four warps share tiles.
constexpr double kSlicedStartSeconds = 2.7e-6;
constexpr double kPaired = 0.5;
constexpr double kEarlySeconds = 0.95e-6;  // less, where blocks do not crowd
constexpr double kPackForSlicedSeconds = 1.5e-6;
constexpr double kClusterSeconds = 0.95e-6;
constexpr double kAddChunksSeconds = 1.4e-6;
constexpr double kAddManyChunksSeconds = 1.5e-6;  // more
constexpr double kChunksFraction = 0.67;
constexpr double kAddQuarterPartsSeconds = 3.8e-6;
// Of what copies by threads were thought to cost when it was settled where they pay.
constexpr double kCopyFraction = 0.9;
constexpr double kSlicedCopyFraction = 0.96;
// How much longer a tile alone takes with two stages instead of four of half the depth: of those
// that share a multiprocessor with two others when there are, and with one.
constexpr double kTwoStagesOfThree = 0.27;
constexpr double kTwoStagesOfTwo = 0.09;
// What tiles read is in part hidden behind arithmetic: at so much of the memory's rate boxes and
// copies bring each element once, the L2 cache all others; and threads that transpose.
constexpr double kReadFraction = 1.3;
constexpr double kTransposeFraction = 0.56;
// Of another tile's time: a narrow one's, and more of it for each operand that threads bring.
constexpr double kNarrow = 0.33;
constexpr double kNarrowByThreads = 0.34;

// Reading and writing.
double ThereAndBack(const DeviceInfo& device, double elements, double fraction) {
  return 2 * sizeof(float) * elements / (fraction * std::max(1.0, device.memory_bytes_per_second));
}

double PackingSeconds(const DeviceInfo& device, const FfmaRounds& rounds, double start_seconds) {
  if (rounds.packed_elements() == 0) return 0;
  const bool itself = rounds.packs_itself();
  return static_cast<double>(rounds.count()) * (itself ? kPackItselfSeconds : start_seconds) +
         ThereAndBack(device, rounds.packed_elements(),
                      itself ? kPackItselfFraction : kPackFraction);
}

double SecondPassSeconds(const DeviceInfo& device, const FfmaRounds& rounds, double start_seconds,
                         double fraction) {
  if (!rounds.second_pass()) return 0;
  return static_cast<double>(rounds.count()) * start_seconds +
         ThereAndBack(device, rounds.partial_elements(), fraction);
}

// A worker's whole tiles and its share of the cut ones, whose sums it begins and ends too.
double SharedSeconds(const Problem& problem, const DeviceInfo& device, const TileCost& cost) {
  const StreamKOrder order(problem);
  const double tiles =
      static_cast<double>(order.whole_tiles) / static_cast<double>(StreamKOrder::kWorkers) +
      static_cast<double>(TilesOf(order.cut_tiles * order.stages, order.sharers)) /
          static_cast<double>(order.stages);
  const double products = tiles * static_cast<double>(problem.k) + std::ceil(tiles) * cost.begin;
  return ModelTile(problem, device, cost, cost.math_fraction, products);
}

// A multiprocessor's whole tiles, two at a time, and its shares of the cut ones.
double SharedPairsSeconds(const Problem& problem, const DeviceInfo& device, const TileCost& cost) {
  const StreamKOrder order(problem, NumericsClass::kStreamKQuarters);
  const auto workers = static_cast<double>(StreamKOrder::kWorkers);
  const int64_t share = TilesOf(order.cut_tiles * order.stages, order.sharers) * order.stage;
  const double products = static_cast<double>(share) + cost.begin;
  return static_cast<double>(order.whole_tiles) / workers *
             ModelTile(problem, device, cost, cost.math_fraction,
                       static_cast<double>(problem.k) + cost.begin) +
         ModelTogether(problem, device, cost,
                       std::ceil(static_cast<double>(order.sharers) / workers), products);
}

// Of tiles that four warps share: arithmetic.
double SlicedTilesSeconds(const DeviceInfo& device, const TileCost& cost,
                          const FfmaRounds& rounds) {
  const Problem& problem = rounds.problem();
  const double multiprocessors = std::max(1, device.multiprocessors);
  const auto rows = static_cast<double>(TilesOf(problem.m, cost.tile_m));
  const auto columns = static_cast<double>(TilesOf(problem.n, cost.tile_n));
  const auto chunks = static_cast<double>(problem.batch_count * rounds.chunks());
  const double products =
      static_cast<double>(std::min(problem.k, rounds.chunk_length())) + cost.begin;
  const double blocks = chunks * rows * columns;
  if (!rounds.narrow_last()) return ModelRounds(problem, device, cost, blocks, products);

  const int by_threads =
      (rounds.feed_a() != FfmaFeed::kBoxes ? 1 : 0) + (rounds.feed_b() != FfmaFeed::kBoxes ? 1 : 0);
  const double narrow = std::min(1.0, kNarrow + by_threads * kNarrowByThreads);
  const double whole = chunks * rows * (columns - 1);
  if (blocks > multiprocessors * cost.together) {
    return ModelRounds(problem, device, cost, whole + narrow * (blocks - whole), products);
  }
  // All at once. The last ones on a multiprocessor are narrow if they come last of all.
  const double deep = std::ceil(blocks / multiprocessors);
  const auto at = [&](double count) {
    return ModelTogether(problem, device, cost, count, products);
  };
  const bool last = whole <= multiprocessors * (deep - 1) && (chunks == 1 || rounds.clustered());
  return at(deep) - (last ? (1 - narrow) * (at(deep) - at(deep - 1)) : 0);
}

double ReadSeconds(const DeviceInfo& device, const FfmaRounds& rounds) {
  const Problem& problem = rounds.problem();
  const auto lines = [](int64_t count, FfmaFeed feed) {
    return static_cast<double>(count) /
           (feed == FfmaFeed::kTransposing ? kTransposeFraction : kReadFraction);
  };
  return sizeof(float) * static_cast<double>(problem.batch_count) * static_cast<double>(problem.k) *
         (lines(problem.m, rounds.feed_a()) + lines(problem.n, rounds.feed_b())) /
         std::max(1.0, device.memory_bytes_per_second);
}

// Sums in quarters, and their chunks.
double SlicedSeconds(const Problem& problem, const DeviceInfo& device, const TileCost& cost,
                     const FfmaRounds& rounds) {
  const double blocks = static_cast<double>(problem.batch_count * rounds.chunks()) *
                        static_cast<double>(TilesOf(rounds.problem().m, cost.tile_m)) *
                        static_cast<double>(TilesOf(rounds.problem().n, cost.tile_n));
  const bool early = blocks < 1e6 && !Crowds(rounds.shape(), std::max(1, device.multiprocessors),
                                             static_cast<int>(blocks));
  return kSlicedStartSeconds - (early ? kEarlySeconds : 0) +
         PackingSeconds(device, rounds, kPackForSlicedSeconds) +
         std::hypot(SlicedTilesSeconds(device, cost, rounds),
                    ReadsAB(problem) ? ReadSeconds(device, rounds) : 0) +
         (rounds.clustered() ? kClusterSeconds : 0) +
         SecondPassSeconds(
             device, rounds,
             kAddChunksSeconds + (rounds.chunks() > kFewChunks ? kAddManyChunksSeconds : 0),
             kChunksFraction) +
         ModelResultSeconds(problem, device);
}

// Quarters that a block sums one after the other, and those of matrices that are cut.
double QuarteredSeconds(const Problem& problem, const DeviceInfo& device, const TileCost& cost,
                        const FfmaRounds& rounds) {
  const int64_t cut = rounds.cut_matrices();
  const int64_t tiles = TilesOf(problem.m, cost.tile_m) * TilesOf(problem.n, cost.tile_n);
  const double sums = static_cast<double>(kQuarters * cut) * static_cast<double>(problem.m) *
                      static_cast<double>(problem.n);
  return kStartSeconds + kAddChunksSeconds + ThereAndBack(device, sums, kChunksFraction) +
         QuarteredRounds(rounds.shape(), (problem.batch_count - cut) * tiles, cut * tiles) *
             ModelTogether(problem, device, cost, cost.together,
                           static_cast<double>(problem.k) + cost.begin) +
         ModelResultSeconds(problem, device) / cost.result_fraction;
}

}  // namespace

double FfmaSeconds(const Problem& problem, const DeviceInfo& device, const FfmaConfig& config,
                   FfmaPacking packing) {
  const FfmaRounds rounds(problem, config, packing);
  const bool sliced = config.shape.slices > 1;
  const double slower = 1 + (sliced ? kSlicedCopyFraction : kCopyFraction) * rounds.copy_slots();
  const bool by_threads =
      rounds.feed_a() != FfmaFeed::kBoxes && rounds.feed_b() != FfmaFeed::kBoxes;
  const double lone_slower =
      !config.shape.halves || by_threads
          ? 1
          : 1 + (config.shape.blocks > 2 ? kTwoStagesOfThree : kTwoStagesOfTwo);
  // Chunks store a part of the tile each, or leave D to the second pass.
  const double stores = rounds.chunks() == 1 ? 1
                        : rounds.clustered() ? 1 / static_cast<double>(rounds.chunks())
                                             : 0;
  const TileCost cost{.tile_m = config.shape.tile_m(),
                      .tile_n = config.shape.tile_n(),
                      .math_fraction = config.math_fraction / slower,
                      .lone_fraction = config.lone_fraction / (slower * lone_slower),
                      .begin = config.begin + (rounds.store_16() ? 0 : stores * config.ragged),
                      .result_fraction = kResultFraction,
                      .together = config.shape.blocks,
                      .paired = sliced               ? kPaired
                                : problem.k < kApart ? kPairedIfShort
                                                     : kPairedIfApart};
  const auto batch = static_cast<double>(problem.batch_count);
  if (config.numerics == NumericsClass::kStreamK && ReadsAB(problem)) {
    return kStartSeconds + PackingSeconds(device, rounds, kPackSeconds) +
           SecondPassSeconds(device, rounds, kAddPartsSeconds, kPartsFraction) +
           batch * SharedSeconds(problem, device, cost) + ModelResultSeconds(problem, device);
  }
  if (config.numerics == NumericsClass::kStreamKQuarters && ReadsAB(problem)) {
    return kSlicedStartSeconds + PackingSeconds(device, rounds, kPackForSlicedSeconds) +
           SecondPassSeconds(device, rounds, kAddQuarterPartsSeconds, kPartsFraction) +
           batch * SharedPairsSeconds(problem, device, cost) + ModelResultSeconds(problem, device);
  }
  if (sliced) return SlicedSeconds(problem, device, cost, rounds);
  if (rounds.cut_matrices() > 0) return QuarteredSeconds(problem, device, cost, rounds);
  return kStartSeconds + PackingSeconds(device, rounds, kPackSeconds) +
         ModelTileSeconds(rounds.problem(), device, cost);
}

}  // namespace gemm
