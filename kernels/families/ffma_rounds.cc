#include "kernels/families/ffma_rounds.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/families/aligned_rows.h"
#include "kernels/families/ffma_blocks.h"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// Blocks step through the work by the size of the grid, which must not pass the last int.
constexpr int64_t kMaxWork = int64_t{1} << 30;
constexpr int64_t kMaxDepth = (int64_t{1} << 31) - 1024;
constexpr int64_t kBoxSize = int64_t{1} << 32;  // elements; the copy engine's limit

size_t Aligned(int64_t elements) {
  return (static_cast<size_t>(elements) * sizeof(float) + 255) / 256 * 256;
}

// The last tiles are cut along k.
bool Cuts(NumericsClass numerics) {
  return numerics == NumericsClass::kStreamK || numerics == NumericsClass::kStreamKQuarters;
}

// Whether the configuration takes a product as D^T = B^T A^T, whose sums are the same.
bool Turns(const Problem& problem, const FfmaConfig& config) {
  return config.shape.slices > 1 && IsTurned(problem);
}

// All but D, and C, which stay as they lie.
Problem AsTilesTakeIt(const Problem& problem, const FfmaConfig& config) {
  if (!Turns(problem, config)) return problem;
  Problem turned = problem;
  std::swap(turned.m, turned.n);
  std::swap(turned.a, turned.b);
  for (MatrixLayout* layout : {&turned.a, &turned.b}) layout->transposed = !layout->transposed;
  return turned;
}

// Where tiles are cut. A share goes on in a second tile if that one begins inside it.
void FillCuts(const StreamKOrder& order, FfmaGemm* g) {
  g->stages = static_cast<int>(order.stages);
  g->whole_tiles = static_cast<int>(order.whole_tiles);
  g->cut_tiles = static_cast<int>(order.cut_tiles);
  g->sharers = static_cast<int>(order.sharers);
  std::array<int64_t, kMostCutTiles> lengths{};
  for (int64_t sharer = 0; sharer < order.sharers; ++sharer) {
    const int64_t end = order.Start(sharer + 1);
    const int64_t tile = (end - 1) / order.stages;
    if (tile == order.Start(sharer) / order.stages) continue;
    lengths[static_cast<size_t>(tile)] = end - tile * order.stages;
    g->seconds[g->second_parts++] = static_cast<uint8_t>(tile);
  }
  std::stable_sort(g->seconds, g->seconds + g->second_parts,
                   [&lengths](uint8_t a, uint8_t b) { return lengths[a] > lengths[b]; });
}

}  // namespace

void FfmaRound::PlaceIn(void* workspace, FfmaPackCounts* counts) {
  const auto at = [workspace](size_t offset) {
    return reinterpret_cast<float*>(static_cast<char*>(workspace) + offset);
  };
  if (packed_a) boxes_a.base = packing_a.to = at(0);
  if (packed_b) boxes_b.base = packing_b.to = at(offset_b);
  if (second_pass) gemm.partial = at(offset_partial);
  if (folds) gemm.kept = at(offset_kept);
  if (!packs_itself) return;
  gemm.own.counts = counts;
  gemm.own.a = packing_a;
  gemm.own.b = packing_b;
}

bool FfmaRounds::Fits(const Problem& as_it_is, const FfmaConfig& config) {
  const Problem problem = AsTilesTakeIt(as_it_is, config);
  const int64_t tiles_m = TilesOf(problem.m, config.shape.tile_m());
  const int64_t tiles_n = TilesOf(problem.n, config.shape.tile_n());
  const int64_t chunks = ChunkCount(config.numerics, problem);
  return problem.k <= kMaxDepth && tiles_m <= kMaxWork / tiles_n &&
         tiles_m * tiles_n <= kMaxWork / chunks;
}

// What operands that threads copy, or transpose, add to a tile's time: the more, the narrower the
// tile is the other way, and the more, the less the ring leaves of the L1 cache. H200, 2026-11-30.
double FfmaRounds::copy_slots() const {
  const FfmaShape& shape = config_.shape;
  const bool by_threads_a = a_.feed != FfmaFeed::kBoxes;
  const bool by_threads_b = b_.feed != FfmaFeed::kBoxes;
  const bool both = by_threads_a && by_threads_b;
  const bool crowded = FfmaKernel{shape, a_.feed, b_.feed}.crowded();
  const double each = shape.slices == 1 ? 8 : crowded && !both ? 4.6 : 2.9;
  return (by_threads_a ? each / shape.tile_n() : 0) + (by_threads_b ? each / shape.tile_m() : 0) +
         (crowded && both ? 0.045 : 0);
}

// Packs the operands for which a trip through memory, and a launch, take less time than threads
// that copy them all along. There are no kernels for an A that threads copy as it lies beside a B
// by boxes, which takes an A with m contiguous, ragged, and an aligned B: then threads copy B too.
void FfmaRounds::PackWhatPays() {
  constexpr double kLaunchSeconds = 1.5e-6;
  constexpr double kBytesPerSecond = 3.8e12;
  constexpr double kFlopsPerSecond = 47e12;
  const Side a = a_;
  const Side b = b_;
  const auto packing_seconds = [this](const Side& side) {
    return 2 * sizeof(float) * static_cast<double>(side.outer) * static_cast<double>(depth_) *
           static_cast<double>(problem_.batch_count) / kBytesPerSecond;
  };
  double least = std::numeric_limits<double>::infinity();
  Side best_a = a;
  Side best_b = b;
  for (int packed = 0; packed < 4; ++packed) {
    const bool pack_a = (packed & 1) != 0;
    const bool pack_b = (packed & 2) != 0;
    if ((pack_a && a.feed == FfmaFeed::kBoxes) || (pack_b && b.feed == FfmaFeed::kBoxes)) continue;
    a_ = pack_a ? Packed(a, config_.shape.tile_m()) : a;
    b_ = pack_b ? Packed(b, config_.shape.tile_n()) : b;
    if (a_.feed == FfmaFeed::kCopying && b_.feed == FfmaFeed::kBoxes) {
      if (pack_b) continue;
      b_.feed = FfmaFeed::kCopying;
    }
    const double seconds = (packed != 0 ? kLaunchSeconds : 0) + (pack_a ? packing_seconds(a) : 0) +
                           (pack_b ? packing_seconds(b) : 0) +
                           copy_slots() * FlopCount(problem_) / kFlopsPerSecond;
    if (seconds >= least) continue;
    least = seconds;
    best_a = a_;
    best_b = b_;
  }
  a_ = best_a;
  b_ = best_b;
}

// Whether the copy engine can fetch an operand as it lies.
bool FfmaRounds::IsDirect(int64_t outer, int64_t outer_stride, const MatrixLayout& layout) const {
  return outer_stride == 1 && HasBoxableRows(layout, problem_.batch_count) && outer <= kBoxSize;
}

// An operand as it lies: by boxes, or by threads.
FfmaRounds::Side FfmaRounds::SideOf(int64_t outer, int64_t outer_stride, int64_t depth_stride,
                                    const MatrixLayout& layout) const {
  Side side{outer, outer_stride, depth_stride, layout.batch_stride, FfmaFeed::kBoxes, false, outer,
            0};
  if (depth_ == 0 || IsDirect(outer, outer_stride, layout)) return side;
  side.feed = depth_stride == 1 ? FfmaFeed::kTransposing : FfmaFeed::kCopying;
  return side;
}

FfmaRounds::Side FfmaRounds::Packed(const Side& as_it_lies, int tile) const {
  Side side = as_it_lies;
  side.feed = FfmaFeed::kBoxes;
  side.packed = true;
  const int64_t rows = limits_.packed / depth_ / tile * tile;
  if (!Cuts(config_.numerics)) {
    side.panel = std::min(side.outer, std::max<int64_t>(rows, tile));
  }
  side.pitch = TilesOf(side.panel, 4) * 4;
  return side;
}

FfmaRounds::FfmaRounds(const Problem& problem, const FfmaConfig& config, FfmaPacking packing,
                       const FfmaLimits& limits)
    : turned_(Turns(problem, config)),
      problem_(AsTilesTakeIt(problem, config)),
      config_(config),
      limits_(limits),
      depth_(ReadsAB(problem) ? problem.k : 0) {
  const StridedGemm<float> p = MakeStridedGemm<float>(problem_, {});
  a_ = SideOf(p.m, p.a_row, p.a_column, problem_.a);
  b_ = SideOf(p.n, p.b_column, p.b_row, problem_.b);
  if (packing == FfmaPacking::kAll) {
    if (a_.feed != FfmaFeed::kBoxes) a_ = Packed(a_, config.shape.tile_m());
    if (b_.feed != FfmaFeed::kBoxes) b_ = Packed(b_, config.shape.tile_n());
  } else if (packing == FfmaPacking::kWherePays) {
    PackWhatPays();
  } else if (packing == FfmaPacking::kNone) {
    // Boxes beside copies by threads are compiled only for a B beside an A that these transpose.
    if (a_.feed == FfmaFeed::kBoxes && b_.feed != FfmaFeed::kBoxes) a_.feed = FfmaFeed::kCopying;
    if (b_.feed == FfmaFeed::kBoxes && a_.feed == FfmaFeed::kCopying) b_.feed = FfmaFeed::kCopying;
  }
  chunk_length_ = ChunkLength(config.numerics, problem);
  chunks_ = depth_ > 0 ? ChunkCount(config.numerics, problem) : 1;
  folds_ = config.shape.slices == 1 && config.numerics == NumericsClass::kQuarters && depth_ > 0;
  partial_pitch_ = TilesOf(b_.panel, 4) * 4;
  const int64_t tiles =
      TilesOf(a_.panel, config.shape.tile_m()) * TilesOf(b_.panel, config.shape.tile_n()) * chunks_;
  tiles_ = tiles;
  clustered_ = config.shape.slices > 1 &&
               ChunksMeetInClusters(chunks_, tiles * problem.batch_count, config.shape.blocks);
  partial_elements_ = chunks_ > 1 && !clustered_ ? chunks_ * a_.panel * partial_pitch_ : 0;
  if (Cuts(config.numerics) && depth_ > 0) {
    const StreamKOrder order(problem, config.numerics);
    partial_elements_ = (order.cut_tiles + order.sharers) * order.tile_m * order.tile_n;
  }

  panels_m_ = TilesOf(p.m, a_.panel);
  panels_n_ = TilesOf(p.n, b_.panel);
  matrices_ = std::min(kMaxWork / std::max<int64_t>(1, tiles), problem.batch_count);
  const auto bound = [this](int64_t most, int64_t elements) {
    if (elements > 0) matrices_ = std::min(matrices_, most / elements);
  };
  bound(limits_.partial, partial_elements_);
  if (folds_) bound(MostTilesThatFold(config.shape, depth_), tiles);
  for (const Side* side : {&a_, &b_}) {
    if (side->batch_stride != 0) bound(limits_.packed, side->packed_elements(depth_));
  }
  if (panels_m_ > 1 || panels_n_ > 1) matrices_ = 1;
  matrices_ = std::max<int64_t>(1, matrices_);
  batches_ = TilesOf(problem.batch_count, matrices_);

  packs_itself_ = PacksItself();

  const auto packed = [this](const Side& side) {
    return Aligned(side.packed_elements(depth_) * (side.batch_stride != 0 ? matrices_ : 1));
  };
  offset_b_ = packed(a_);
  offset_partial_ = offset_b_ + packed(b_);
  const int64_t last = problem.batch_count - (batches_ - 1) * matrices_;
  const int64_t cut = std::max(CutMatrices(matrices_), CutMatrices(last));
  offset_kept_ = offset_partial_ + Aligned(partial_elements_ * matrices_ +
                                           cut * kQuarters * a_.panel * partial_pitch_);
  const int64_t folding = !folds_   ? 0
                          : cut > 0 ? kMostFoldingBlocks
                                    : std::min(tiles * matrices_, int64_t{kMostFoldingBlocks});
  workspace_bytes_ = offset_kept_ + Aligned(folding * config.shape.kept_elsewhere());
}

int64_t FfmaRounds::CutMatrices(int64_t matrices) const {
  if (!folds_ || panels_m_ > 1 || panels_n_ > 1) return 0;
  return MatricesToCut(config_.shape, matrices, tiles_, a_.panel * partial_pitch_, depth_);
}

// Whether the kernel that multiplies packs: its tiles have to begin with the first products, as all
// but those do of which each is cut.
bool FfmaRounds::PacksItself() const {
  if (!config_.shape.packs || (!a_.packed && !b_.packed) || matrices_ > 1) return false;
  if (a_.feed != FfmaFeed::kBoxes || b_.feed != FfmaFeed::kBoxes) return false;
  if (Cuts(config_.numerics) && StreamKOrder(problem_, config_.numerics).whole_tiles == 0) {
    return false;
  }
  const int64_t groups = TilesOf(a_.panel, int64_t{kFfmaTileGroup} * config_.shape.tile_m());
  return TilesOf(depth_, kFfmaPackTile) + groups <= FfmaPackCounts::kMostDone;
}

size_t FfmaRounds::workspace_bytes() const { return workspace_bytes_; }

int64_t FfmaRounds::launches() const {
  if (packs_itself_) return count() * (partial_elements_ > 0 ? 2 : 1);
  const int64_t packs = a_.packed || (b_.packed && panels_m_ == 1) ? count()
                        : b_.packed                                ? batches_ * panels_n_
                                                                   : 0;
  const int64_t cut =
      (CutMatrices(matrices_) > 0 ? batches_ - 1 : 0) + (cut_matrices() > 0 ? 1 : 0);
  return count() * (partial_elements_ > 0 ? 2 : 1) + cut + packs;
}

double FfmaRounds::packed_elements() const {
  double elements = 0;
  for (const Side* side : {&a_, &b_}) {
    if (!side->packed) continue;
    elements += static_cast<double>(depth_) * static_cast<double>(side->outer) *
                static_cast<double>(side->batch_stride != 0 ? problem_.batch_count : batches_);
  }
  return elements;
}

bool FfmaRounds::store_16() const {
  return !turned_ && HasAlignedRows(problem_.d, problem_.batch_count) &&
         (!ReadsC(problem_) || HasAlignedRows(problem_.c, problem_.batch_count));
}

// Cuts are of tiles in another order; panels have whole tiles but for the last.
bool FfmaRounds::narrow_last() const {
  const int64_t left = problem_.n % config_.shape.tile_n();
  return !Cuts(config_.numerics) && panels_n_ == 1 && problem_.n > left && left > 0 &&
         left <= config_.shape.narrow_columns();
}

double FfmaRounds::partial_elements() const {
  return static_cast<double>(partial_elements_) * static_cast<double>(problem_.batch_count) *
         static_cast<double>(panels_m_) * static_cast<double>(panels_n_);
}

void FfmaRounds::FillSide(const Side& side, const float* from, int64_t first, int64_t outer,
                          int64_t matrices, int tile, bool pack, TensorBoxes* boxes,
                          Packing* packing, bool* packed) const {
  if (depth_ == 0 || side.feed != FfmaFeed::kBoxes) return;
  const int64_t different = side.batch_stride != 0 ? matrices : 1;
  from += first * side.outer_stride;
  *packed = side.packed;
  boxes->outer = outer;
  boxes->depth = depth_;
  boxes->matrices = different;
  boxes->box_outer = tile;
  boxes->box_depth = config_.shape.slice_depth();
  if (!side.packed) {
    boxes->base = from;
    boxes->depth_stride = side.depth_stride;
    boxes->matrix_stride = side.batch_stride;
    return;
  }
  boxes->depth_stride = side.pitch;
  boxes->matrix_stride = side.pitch * depth_;
  if (!pack) return;
  *packing = {from,   side.outer_stride, side.depth_stride, side.batch_stride, outer,
              depth_, different,         nullptr,           side.pitch};
}

void FfmaRounds::FillOwnPacking(FfmaRound* round) const {
  const auto tiles = [](const Packing& packing) {
    return packing.batch_count > 0 ? TilesOf(packing.outer, kFfmaPackTile) : 0;
  };
  const int64_t tiles_a = tiles(round->packing_a);
  const int64_t tiles_b = tiles(round->packing_b);
  round->packs_itself = tiles_a + tiles_b > 0;
  if (!round->packs_itself) return;
  // All tiles that run at first are of the first group.
  const int64_t group_tiles =
      TilesOf(StreamKOrder::kWorkers, int64_t{kFfmaTileGroup} * round->gemm.tiles_n) *
      kFfmaTileGroup;
  const int64_t group = std::min(tiles_a, group_tiles * config_.shape.tile_m() / kFfmaPackTile);
  const int64_t phases = TilesOf(depth_, kFfmaPackTile);
  const int64_t later_groups = group > 0 ? TilesOf(tiles_a, group) - 1 : 0;
  FfmaOwnPacking& own = round->gemm.own;
  own.phases = static_cast<int>(phases);
  own.group = static_cast<int>(group);
  own.of_phase = static_cast<int>(group + tiles_b);
  own.of_all_phases = own.of_phase * own.phases;
  own.of_group = own.group * own.phases;
  own.shares = own.of_all_phases + own.of_group * static_cast<int>(later_groups);
  own.by_group = DivisorOf(group);
  own.by_group_tiles = DivisorOf(group_tiles);
  own.by_of_phase = DivisorOf(own.of_phase);
  own.by_of_group = DivisorOf(own.of_group);
}

FfmaRound FfmaRounds::Round(int64_t index, const Operands& as_they_are) const {
  Operands operands = as_they_are;
  if (turned_) std::swap(operands.a, operands.b);
  const int64_t panel_m = index % panels_m_;
  const int64_t panel_n = index / panels_m_ % panels_n_;
  const int64_t first = index / panels_m_ / panels_n_ * matrices_;
  const int64_t row = panel_m * a_.panel;
  const int64_t column = panel_n * b_.panel;

  FfmaRound round;
  std::memset(static_cast<void*>(&round), 0, sizeof(round));
  round.feed_a = a_.feed;
  round.feed_b = b_.feed;
  round.offset_b = offset_b_;
  round.offset_partial = offset_partial_;
  round.offset_kept = offset_kept_;
  round.folds = folds_;
  round.cluster = clustered_ ? static_cast<int>(chunks_) : 1;
  FfmaGemm& g = round.gemm;
  g.p = MakeStridedGemm<float>(problem_, operands);
  g.p.m = std::min(a_.panel, g.p.m - row);
  g.p.n = std::min(b_.panel, g.p.n - column);
  g.p.batch_count = std::min(matrices_, problem_.batch_count - first);
  // Unread operands may be null.
  if (depth_ > 0) {
    g.p.a += first * g.p.a_batch;
    g.p.b += first * g.p.b_batch;
    FillSide(a_, g.p.a, row, g.p.m, g.p.batch_count, config_.shape.tile_m(), true, &round.boxes_a,
             &round.packing_a, &round.packed_a);
    FillSide(b_, g.p.b, column, g.p.n, g.p.batch_count, config_.shape.tile_n(), panel_m == 0,
             &round.boxes_b, &round.packing_b, &round.packed_b);
    g.p.a += row * g.p.a_row;
    g.p.b += column * g.p.b_column;
  }
  const int64_t row_of_d = turned_ ? column : row;
  const int64_t column_of_d = turned_ ? row : column;
  if (ReadsC(problem_)) g.p.c += first * g.p.c_batch + row_of_d * g.p.c_row + column_of_d;
  g.p.d += first * g.p.d_batch + row_of_d * g.p.d_row + column_of_d;

  g.box_step_a = a_.batch_stride != 0 ? 1 : 0;
  g.box_step_b = b_.batch_stride != 0 ? 1 : 0;
  g.turned = turned_;
  g.store_16 = store_16();
  g.store_whole = g.store_16 && !ReadsC(problem_);
  g.tiles_m = static_cast<int>(TilesOf(g.p.m, config_.shape.tile_m()));
  g.tiles_n = static_cast<int>(TilesOf(g.p.n, config_.shape.tile_n()));
  g.narrow_last = narrow_last();
  g.chunks = static_cast<int>(chunks_);
  g.cut_matrices = static_cast<int>(CutMatrices(g.p.batch_count));
  round.second_pass = partial_elements_ > 0 || g.cut_matrices > 0;
  g.work = static_cast<int>((g.p.batch_count - g.cut_matrices) * chunks_ * g.tiles_m * g.tiles_n);
  g.chunk_length = static_cast<int>(std::min<int64_t>(chunk_length_, kMaxDepth + 64));
  g.quarters = folds_ ? kQuarters : 1;
  const FfmaShape& shape = config_.shape;
  g.ring_stages = shape.stages - (folds_ ? shape.lent_stages : 0);
  g.slice_length = g.chunk_length / (folds_ ? kQuarters : config_.shape.slices);
  g.one = 1;
  if (packs_itself_) FillOwnPacking(&round);
  g.together = clustered_ ? g.chunks : 1;
  g.by_together = DivisorOf(g.together);
  g.by_chunks = DivisorOf(g.chunks);
  g.by_tiles = DivisorOf(int64_t{g.tiles_m} * g.tiles_n);
  g.by_group = DivisorOf(int64_t{kFfmaTileGroup} * (g.tiles_n - (g.narrow_last ? 1 : 0)));
  g.by_last_height =
      DivisorOf(g.tiles_m % kFfmaTileGroup != 0 ? g.tiles_m % kFfmaTileGroup : kFfmaTileGroup);
  g.partial_pitch = partial_pitch_;
  if (Cuts(config_.numerics)) {
    g.whole_tiles = g.tiles_m * g.tiles_n;  // of empty sums
    if (depth_ > 0) FillCuts(StreamKOrder(problem_, config_.numerics), &g);
    g.work = static_cast<int>(g.p.batch_count * g.whole_tiles);
    if (config_.shape.slices > 1) {
      g.work += static_cast<int>(g.p.batch_count) * (g.sharers + g.second_parts);
    }
  }
  return round;
}

}  // namespace gemm
