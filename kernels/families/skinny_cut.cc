#include "kernels/families/skinny_cut.h"

#include <algorithm>

namespace gemm {
namespace {

constexpr int64_t kFewBlocks = 132;      // leave some of a large device idle
constexpr int64_t kEnoughBlocks = 1024;  // fill any device without a cut of k
// Of a part of the workspace.
constexpr int64_t kMostElements = (int64_t{64} << 20) / sizeof(float);

// Up to so many products of a block x comes an element at a time in less time than it is packed.
constexpr int64_t kShort = 768;
constexpr int64_t kShortNarrow = 1024;  // in strips of 16

// Whether it is better than packing x, where the matrix comes by boxes of each fourth row.
bool ByElements(const Problem& problem, const SkinnyCut& cut) {
  const LaneOrder& order = cut.order;
  if (cut.rows <= 16 && !cut.matrix.Boxable(problem)) return true;
  const bool narrow = order.strip == kNarrowStrip && !cut.matrix.Boxable(problem);
  return order.whole_strips == 0 && order.chunk_length <= (narrow ? kShortNarrow : kShort) &&
         order.strips * order.chunks * problem.batch_count <= kFewBlocks;
}

// The kernel's number of rows, the least that will do.
int RowsIndex(const Problem& problem, const SkinnyCut& cut, SkinnyFeed feed) {
  // Wider strips give the same bits where they have all of k, in less time if a batch fills the
  // device with them.
  const int64_t wide_blocks =
      TilesOf(cut.length, SkinnyStrip(cut.rows)) * cut.order.chunks * problem.batch_count;
  const bool narrow =
      cut.order.strip == kNarrowStrip && wide_blocks <= kFewBlocks && feed != SkinnyFeed::kShifted;
  int index = 0;
  while (kSkinnyRowCounts[index].rows < cut.rows || kSkinnyRowCounts[index].narrow != narrow ||
         !HasSkinnyKernel(index, cut.x.along, feed)) {
    ++index;
  }
  return index;
}

// Whether persistent blocks share out the strips of all matrices: where these fill the device.
// Where strides are aligned, kernels that read 16 bytes at a time serve better, but for long sums
// of a matrix with the lines contiguous. A plan does not know where operands begin, so that does
// not count.
bool SharesOut(const Problem& problem, const SkinnyCut& cut) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  constexpr int64_t kLong = 384;
  if (problem.batch_count == 1 || cut.rows <= kMostCopied || cut.rows > kMostBatchRows) {
    return false;
  }
  const SkinnyOperand& matrix = cut.matrix;
  if (!ReadsAB(problem) || !matrix.Countable(problem) || problem.k > kMost - kLaneRound) {
    return false;
  }
  const int64_t stride = matrix.along ? matrix.line_stride : matrix.k_stride;
  const bool aligned = stride % 4 == 0 && matrix.batch_stride % 4 == 0;
  if (aligned && (matrix.along || problem.k < kLong)) return false;
  const int64_t strips = TilesOf(cut.length, SkinnyStrip(cut.rows));
  return strips <= kMost / problem.batch_count && strips * problem.batch_count >= kFewBlocks;
}

// Settles the feed, with the kernel's rows and whether x is packed.
void ChooseFeed(const Problem& problem, bool boxes, SkinnyCut* cut) {
  const auto take = [&problem, cut](SkinnyFeed feed) {
    cut->feed = feed;
    cut->rows_index = RowsIndex(problem, *cut, feed);
  };
  SkinnyOperand& x = cut->x;
  if (cut->rows <= kMostCopied && cut->matrix.aligned_16) {
    take(SkinnyFeed::kCopies);
    return;
  }
  if (cut->rows > kMostCopied && cut->rows <= kMostSkinny && boxes && ReadsAB(problem)) {
    const bool x_boxable = x.Boxable(problem);
    const int64_t elements = (x.OneForAll(problem) ? 1 : problem.batch_count) * x.Rows(problem) *
                             TilesOf(x.RowElements(problem), 4) * 4;
    const bool packable = !x_boxable && elements <= kMostElements;
    if (packable) cut->packed_elements = elements;
    const bool shiftable = cut->rows > kMostShifted && cut->matrix.Quarterable(problem);
    const bool by_elements = !x_boxable && shiftable && ByElements(problem, *cut);
    if (cut->matrix.Boxable(problem) && !by_elements && (x_boxable || packable)) {
      take(SkinnyFeed::kBoxes);
      cut->packs_x = packable;
      return;
    }
    if (shiftable) {
      take(SkinnyFeed::kShiftedBoxes);
      cut->x_by_elements = by_elements;
      cut->packs_x = packable && !by_elements;
      if (x_boxable || by_elements || packable) return;
    }
  }
  // Here x has to be lines with k contiguous, or is taken for them.
  if (!x.along) {
    x.along = true;
    x.aligned_16 = false;
  }
  cut->x_by_elements = cut->packs_x = false;
  take(SkinnyFeed::kShifted);
}

constexpr int64_t kMultiprocessors = 132;

// So many blocks that each has the same number of items, or one less. `most_warps`: of a
// multiprocessor; `together`: items of a block at once, in so many warps each.
void SpreadBlocks(int most_warps, int most_block_warps, int item_warps, LineCut* line) {
  const int64_t items = std::max<int64_t>(1, line->items);
  const int64_t rounds = TilesOf(items, kMultiprocessors * (most_warps / item_warps));
  const int64_t each = TilesOf(items, kMultiprocessors * rounds);  // of a multiprocessor at once
  const int64_t most_together = std::max(1, most_block_warps / item_warps);
  line->places = static_cast<int>(TilesOf(each, most_together));
  const int64_t together = TilesOf(each, line->places);
  line->block_warps = static_cast<int>(together) * item_warps;
  line->blocks = std::min(TilesOf(items, together), kMultiprocessors * line->places);
}

// Rows of a warp at once: so many that there are warps enough, but more where k is short.
int DotRowsOf(const SkinnyCut& cut, int64_t k, int64_t batch) {
  constexpr int64_t kShortSum = 128;
  constexpr int64_t kMediumSum = 512;
  constexpr int64_t kManyRows = 24000;
  constexpr int64_t kFewWarps = kMultiprocessors * kLineWarpsTogether / 2;
  if (cut.length == 1) return 1;
  const int64_t rows = cut.length * batch;
  if (k <= kMediumSum && rows >= kManyRows) return kMostDotRows;
  const int64_t meeting = std::min<int64_t>(cut.order.chunks, kMostMeeting);
  if (rows * meeting < 2 * kFewWarps) return 1;
  return k <= kShortSum && rows >= kMostDotRows * kFewWarps ? kMostDotRows : 2;
}

void CutDots(const Problem& problem, SkinnyCut* cut) {
  LineCut& line = cut->line;
  const int64_t chunks = cut->order.chunks;
  line.warps = 1;
  line.rows = DotRowsOf(*cut, problem.k, problem.batch_count);
  line.strips = TilesOf(cut->length, line.rows);
  line.items = line.strips * problem.batch_count * line.parts;
  line.share = 1;
  const bool meet = chunks <= kDeepChunkLanes || cut->length == 1;
  while (line.parts == 1 && meet && line.share < std::min<int64_t>(chunks, kMostMeeting) &&
         line.items * line.share < kMultiprocessors * kLineWarpsTogether / 2) {
    line.share *= 2;
  }
  SpreadBlocks(kLineWarpsTogether, std::max(kMostDotGroups, line.share), line.share, &line);
}

void CutColumns(const Problem& problem, SkinnyCut* cut) {
  // With so many, a warp each.
  constexpr int64_t kManyStrips = 1200;
  LineCut& line = cut->line;
  line.rows = kLineStrip;
  line.strips = TilesOf(cut->length, int64_t{kLineStrip});
  line.items = line.strips * problem.batch_count * line.parts;
  line.warps = line.items >= kManyStrips ? 1 : kColumnWarps;
  line.share = 1;
  if (line.warps == 1) {
    SpreadBlocks(kLineWarpsTogether, kMostLineThreads / 32, 1, &line);
    return;
  }
  if (line.parts == 1 && cut->order.chunks >= kMostChunksTogether &&
      line.items <= kMultiprocessors) {
    line.share = kMostChunksTogether;
  }
  const int item_warps = line.warps * line.share;
  SpreadBlocks(kColumnWarpsTogether, item_warps, item_warps, &line);
  line.freely = (line.places + 1) * line.block_warps > kColumnWarpsTogether;
  // Ragged loads take two lines of the L1 cache each.
  constexpr int64_t kLong = 1024;
  if (!line.freely && line.parts == 1 && !cut->matrix.aligned_16 && problem.k > kLong) {
    line.freely = line.late = true;
  }
}

// How chunks of a line meet, and who has what.
void CutLine(const Problem& problem, SkinnyCut* cut) {
  const LaneOrder& order = cut->order;
  const bool dots = cut->kind == SkinnyKind::kDots;
  cut->pitch = cut->length == 1 ? 1 : TilesOf(cut->length, 4) * 4;
  // Fits where there are few. Rows of many chunks meet in no block, but in a warp.
  const int64_t most = kMultiprocessors * (dots && order.chunks > kDeepChunkLanes ? 8 : 1);
  const int64_t few = most / std::max<int64_t>(1, problem.batch_count);
  const int64_t elements = order.chunks * cut->pitch * problem.batch_count;
  if (order.chunks > (dots ? kMostMeeting : kMostChunksTogether) &&
      (dots ? cut->length : order.strips) <= few && elements <= kMostElements) {
    cut->partial_elements = elements;
    cut->way = SkinnyWay::kSecondPass;
  }
  cut->line.parts = cut->way == SkinnyWay::kSecondPass ? order.chunks : 1;
  if (dots) {
    CutDots(problem, cut);
  } else {
    CutColumns(problem, cut);
  }
}

// Which operand is x, before anything is settled.
SkinnyCut Uncut(const Problem& problem, bool a_16, bool b_16) {
  // Of a tile either may be x.
  const bool x_is_a = problem.m <= problem.n || problem.n > kMostSkinny;
  const int64_t rows = x_is_a ? problem.m : problem.n;
  const int64_t length = x_is_a ? problem.n : problem.m;
  return {
      .x_is_a = x_is_a,
      .rows = rows,
      .length = length,
      .x = SkinnyOperand(problem, x_is_a, rows, rows <= kMostLines, x_is_a ? a_16 : b_16),
      .matrix = SkinnyOperand(problem, !x_is_a, length, false, x_is_a ? b_16 : a_16),
      .kind = SkinnyKind::kStrips,
      .feed = SkinnyFeed::kShifted,
      .rows_index = 0,
      .order = LaneOrder(problem),
      .way = SkinnyWay::kOneByOne,
      .pitch = 0,
      .partial_elements = 0,
      .x_by_elements = false,
      .packs_x = false,
      .packed_elements = 0,
      .line = {},
  };
}

}  // namespace

SkinnyOperand::SkinnyOperand(const Problem& problem, bool of_a, int64_t line_count, bool few,
                             bool base_16)
    : lines(line_count) {
  const MatrixLayout& layout = of_a ? problem.a : problem.b;
  const bool k_first = of_a != layout.transposed;
  line_stride = k_first ? layout.ld : 1;
  k_stride = k_first ? 1 : layout.ld;
  batch_stride = layout.batch_stride;
  along = few || k_stride == 1;
  const int64_t stride = along ? line_stride : k_stride;
  aligned_16 = base_16 && (along ? k_stride : line_stride) == 1 &&
               ((along && lines == 1) || stride % 4 == 0) &&
               (problem.batch_count == 1 || batch_stride % 4 == 0);
}

bool SkinnyOperand::Countable(const Problem& problem) const {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  constexpr int64_t kMostStride = (int64_t{1} << 36) - 1;  // elements
  return (along ? k_stride : line_stride) == 1 && lines <= kMost && problem.k <= kMost &&
         problem.batch_count <= kMost && std::max(line_stride, k_stride) <= kMostStride &&
         batch_stride <= kMostStride;
}

SkinnyOperand SkinnyOperand::Packed(const Problem& problem) const {
  SkinnyOperand packed = *this;
  const int64_t pitch = TilesOf(RowElements(problem), 4) * 4;
  (along ? packed.line_stride : packed.k_stride) = pitch;
  packed.batch_stride = OneForAll(problem) ? 0 : Rows(problem) * pitch;
  packed.aligned_16 = true;
  return packed;
}

TensorBoxes SkinnyOperand::Boxes(const Problem& problem, const float* base, int box_lines, int step,
                                 int swizzle_bytes) const {
  TensorBoxes boxes;
  boxes.base = base;
  boxes.outer = RowElements(problem);
  boxes.depth = Rows(problem);
  boxes.matrices = OneForAll(problem) ? 1 : problem.batch_count;
  // Of one line any multiple of 16 bytes will do.
  boxes.depth_stride = along && lines == 1 ? 4 : along ? line_stride : k_stride;
  boxes.matrix_stride = batch_stride;
  boxes.box_outer = along ? step : box_lines;
  boxes.box_depth = along ? box_lines : step;
  boxes.swizzle_bytes = swizzle_bytes;
  return boxes;
}

TensorBoxes SkinnyOperand::QuarterBoxes(const Problem& problem, const float* base, int first,
                                        int box_lines, int step) const {
  TensorBoxes boxes = Boxes(problem, base, box_lines, step, 0);
  const float* row = base + first * boxes.depth_stride;
  const auto shift = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(float) % 4);
  boxes.base = row - shift;
  boxes.outer += shift;
  boxes.depth = TilesOf(boxes.depth - first, kSkinnyQuarters);
  boxes.depth_stride *= kSkinnyQuarters;
  boxes.box_outer = QuarteredPitch(boxes.box_outer, along);
  boxes.box_depth /= kSkinnyQuarters;
  return boxes;
}

SkinnyCut CutSkinny(const Problem& problem, bool clusters, bool boxes, bool a_16, bool b_16) {
  SkinnyCut cut = Uncut(problem, a_16, b_16);
  const int64_t rows = cut.rows;
  const int64_t length = cut.length;
  if (boxes && SharesOut(problem, cut)) {
    cut.kind = SkinnyKind::kBatch;
    cut.order.strip = SkinnyStrip(rows);
    cut.order.strips = TilesOf(length, cut.order.strip);
    return cut;
  }
  LaneOrder& order = cut.order;
  if (rows == 1) {
    cut.kind = length == 1 || cut.matrix.along ? SkinnyKind::kDots : SkinnyKind::kColumns;
    if (!ReadsAB(problem)) order.chunks = 1;
    CutLine(problem, &cut);
    return cut;
  }
  ChooseFeed(problem, boxes, &cut);
  if (const int strip = kSkinnyRowCounts[cut.rows_index].Strip(); strip != order.strip) {
    order.strip = strip;
    order.strips = TilesOf(length, strip);
  }
  if (!ReadsAB(problem)) {
    order.whole_strips = 0;
    order.chunks = 1;
  }
  if (order.chunks == 1 ||
      order.strips > kEnoughBlocks / std::max<int64_t>(1, problem.batch_count)) {
    return cut;
  }
  // Fits: few strips and few matrices.
  cut.pitch = TilesOf(length - order.whole_strips * order.strip, 4) * 4;
  const int64_t elements = order.chunks * rows * cut.pitch * problem.batch_count;
  const SkinnyRowCount& kernel = kSkinnyRowCounts[cut.rows_index];
  const bool two_a_multiprocessor =
      kernel.rows <= 16 && (cut.feed == SkinnyFeed::kCopies || cut.feed == SkinnyFeed::kBoxes);
  if (clusters && order.whole_strips == 0 && order.chunks <= kMostTogether &&
      (order.chunks == 2 || kernel.rows * kernel.Strip() <= kFewResults) &&
      (order.strips * problem.batch_count <= kClustersAtOnce[0][order.chunks] ||
       (order.chunks == 2 && two_a_multiprocessor))) {
    cut.way = SkinnyWay::kCluster;
  } else if (elements <= kMostElements) {
    cut.way = SkinnyWay::kSecondPass;
    cut.partial_elements = elements;
  }
  return cut;
}

SkinnyCut CutSequentialLine(const Problem& problem) {
  SkinnyCut cut = Uncut(problem, false, false);
  cut.kind = SkinnyKind::kSequential;
  cut.order.chunks = 1;
  cut.order.chunk_length = std::max<int64_t>(1, problem.k);
  LineCut& line = cut.line;
  line = {.warps = 1,
          .share = 1,
          .rows = kLineStrip,
          .strips = TilesOf(cut.length, int64_t{kLineStrip}),
          .parts = 1};
  line.items = line.strips * problem.batch_count;
  SpreadBlocks(kLineWarpsTogether, kMostLineThreads / 32, 1, &line);
  return cut;
}

}  // namespace gemm
