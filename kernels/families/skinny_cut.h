// How a product of the skinny family is cut: which of its operands is x, how their steps come into
// shared memory, for how many rows a kernel runs, and what is added where.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_CUT_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_CUT_H_

#include <cstdint>
#include <iterator>

#include "kernels/families/skinny_batch.h"
#include "kernels/families/skinny_gemm.h"
#include "kernels/families/skinny_lines.h"
#include "kernels/families/sum_order.h"
#include "kernels/families/tensor_boxes.h"
#include "kernels/gemm.h"

namespace gemm {

// A number of rows of x, from two on, for which there are kernels of strips.
struct SkinnyRowCount {
  int rows;
  bool if_along = true;   // where x has k contiguous
  bool if_across = true;  // where it has the rows contiguous
  bool if_shifted = false;
  bool if_shifted_boxes = false;
  bool narrow = false;  // strips of kNarrowStrip

  constexpr int Strip() const { return narrow ? kNarrowStrip : SkinnyStrip(rows); }
};
inline constexpr SkinnyRowCount kSkinnyRowCounts[] = {
    {.rows = 4, .if_shifted = true},
    {.rows = 8, .if_shifted = true},
    {.rows = 16, .if_shifted = true, .if_shifted_boxes = true},
    {.rows = 24},
    {.rows = 32, .if_shifted = true, .if_shifted_boxes = true},
    {.rows = 32, .if_shifted_boxes = true, .narrow = true},
    {.rows = 40, .if_across = false, .if_shifted_boxes = true},
    {.rows = 48, .if_along = false, .if_shifted_boxes = true},
    {.rows = 64, .if_shifted = true}};
inline constexpr int kSkinnyCounts = static_cast<int>(std::size(kSkinnyRowCounts));
static_assert(kSkinnyRowCounts[kSkinnyCounts - 1].rows == kMostSkinnyTile);
// So many rows are taken for lines with k contiguous, whatever they are.
inline constexpr int kMostLines = 2;
inline constexpr int kMostCopied = 4;  // more come by boxes, but for a tile
// Of any alignment; more come by boxes too, and by copies only where those cannot.
inline constexpr int kMostShifted = 8;

constexpr bool HasSkinnyKernel(int index, bool x_along, SkinnyFeed feed) {
  const SkinnyRowCount& count = kSkinnyRowCounts[index];
  if (!(x_along ? count.if_along : count.if_across)) return false;
  switch (feed) {
    case SkinnyFeed::kCopies:
      return count.rows <= kMostCopied;
    case SkinnyFeed::kBoxes:
      return count.rows > kMostCopied && count.rows < kMostSkinnyTile;
    case SkinnyFeed::kShifted:
      return count.if_shifted && x_along;
    case SkinnyFeed::kShiftedBoxes:
      return count.if_shifted_boxes;
  }
  return false;
}

// One operand: `lines` rows of x, or of j, and how they lie.
struct SkinnyOperand {
  int64_t lines;
  int64_t line_stride;
  int64_t k_stride;
  int64_t batch_stride;
  bool along;       // k is contiguous, or taken for it
  bool aligned_16;  // so are four elements in a row, along what is contiguous

  // `base_16`: it begins at a multiple of 16 bytes. Few lines are taken for lines with k
  // contiguous.
  SkinnyOperand(const Problem& problem, bool of_a, int64_t line_count, bool few, bool base_16);

  // Whether the copy engine can count it where rows and matrices begin anywhere, as each fourth row
  // of each fourth matrix; where rows do, as each fourth row; and where all are aligned.
  bool Countable(const Problem& problem) const;
  bool Quarterable(const Problem& problem) const {
    return Countable(problem) && (problem.batch_count == 1 || batch_stride % 4 == 0);
  }
  bool Boxable(const Problem& problem) const { return aligned_16 && Quarterable(problem); }

  bool OneForAll(const Problem& problem) const {
    return problem.batch_count == 1 || batch_stride == 0;
  }

  // As rows of memory, and copied to where those are aligned.
  int64_t Rows(const Problem& problem) const { return along ? lines : problem.k; }
  int64_t RowElements(const Problem& problem) const { return along ? problem.k : lines; }
  SkinnyOperand Packed(const Problem& problem) const;

  TensorBoxes Boxes(const Problem& problem, const float* base, int box_lines, int step,
                    int swizzle_bytes) const;
  // Of each fourth row, from the `first` on.
  TensorBoxes QuarterBoxes(const Problem& problem, const float* base, int first, int box_lines,
                           int step) const;
};

enum class SkinnyWay { kOneByOne, kCluster, kSecondPass };

// Kernels of strips, those of skinny_lines.h, or that of skinny_batch.h.
enum class SkinnyKind { kStrips, kDots, kColumns, kSequential, kBatch };

// How the kernels of skinny_lines.h share out a product: LineShare, and blocks that stay.
struct LineCut {
  int warps;
  int share;
  int rows;
  int64_t strips;
  int64_t parts;
  int64_t items;
  int block_warps;
  int64_t blocks;
  int places;  // of a multiprocessor
  // Whether blocks fill their places, so that none crowd, or shared memory that would keep them
  // from it is better left to the L1 cache: then the launch does not start early.
  bool freely = false;
  bool late = false;
};

// Which operand is x, how its steps come, and how the launch is cut.
struct SkinnyCut {
  bool x_is_a;
  int64_t rows;
  int64_t length;
  SkinnyOperand x;
  SkinnyOperand matrix;
  SkinnyKind kind;
  SkinnyFeed feed;  // of strips
  int rows_index;   // of kSkinnyRowCounts
  LaneOrder order;
  SkinnyWay way;
  int64_t pitch;             // of sums in the workspace
  int64_t partial_elements;  // 0 but for a second pass
  bool x_by_elements;        // though the matrix comes by boxes
  bool packs_x;              // copies x into the workspace first
  int64_t packed_elements;   // room for that, should the operands lie so that it is copied
  LineCut line;              // of dots and columns

  bool IsLine() const { return kind != SkinnyKind::kStrips && kind != SkinnyKind::kBatch; }
  // That share the chunks of a strip.
  int64_t ChunkBlocks() const { return way == SkinnyWay::kOneByOne ? 1 : order.chunks; }
  int64_t Blocks() const {
    if (IsLine()) return line.items;  // which blocks count
    return order.whole_strips + (order.strips - order.whole_strips) * ChunkBlocks();
  }
};

// `clusters`: blocks may meet. `boxes`: the device has a copy engine. `a_16`, `b_16`: the operand
// begins at a multiple of 16 bytes.
SkinnyCut CutSkinny(const Problem& problem, bool clusters, bool boxes, bool a_16, bool b_16);
// Of one row or column, summed sequentially.
SkinnyCut CutSequentialLine(const Problem& problem);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_CUT_H_
