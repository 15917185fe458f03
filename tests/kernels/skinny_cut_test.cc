// How products of one row or column are shared out among blocks.

#include "kernels/families/skinny_cut.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gemm {
namespace {

SkinnyCut CutOf(int64_t length, int64_t k, int64_t batch, bool along, bool aligned) {
  Problem problem = DenseProblem(DType::kF32, 1, length, k, batch);
  if (along) {
    problem.b.transposed = true;
    problem.b.ld = k;
  }
  return CutSkinny(problem, true, true, aligned, aligned);
}

// Rows with k contiguous, and single results, go to warps: blocks are no larger than a device has,
// and chunks that meet in one find room for their sums there.
TEST(SkinnyCut, GivesRowsToWarps) {
  for (int64_t length : {1, 2, 9, 131, 133, 1000, 3729, 4224, 4225, 100000}) {
    for (int64_t k : {128, 300, 2049, 9001, 100001, 5000000}) {
      for (int64_t batch : {1, 3, 1100, 70000}) {
        const SkinnyCut cut = CutOf(length, k, batch, true, false);
        ASSERT_EQ(cut.kind, SkinnyKind::kDots);
        EXPECT_LE(cut.dots.rows * cut.dots.warps, 32) << length << " " << k << " " << batch;
        EXPECT_LE(cut.dots.rows, length) << k << " " << batch;
        if (cut.way == SkinnyWay::kSecondPass) {
          EXPECT_EQ(cut.dots.rows, 1);
          EXPECT_EQ(cut.partial_elements, cut.order.chunks * cut.pitch * batch);
          EXPECT_GE(cut.ChunkBlocks() * cut.dots.warps, cut.order.chunks);
        } else {
          EXPECT_EQ(cut.way, SkinnyWay::kOneByOne);
          EXPECT_LE(cut.dots.rows * cut.order.chunks, kMostSingleChunks)
              << length << " " << k << " " << batch;
        }
        EXPECT_GE(cut.Blocks() * cut.dots.rows, length);
      }
    }
  }
  // Rows of one wave are spread evenly, so that each multiprocessor has a block.
  EXPECT_EQ(CutOf(3729, 7489, 1, true, false).Blocks(), 129);
  EXPECT_EQ(CutOf(2000, 7489, 1, true, true).Blocks(), 125);
  EXPECT_EQ(CutOf(6626, 411, 1, true, false).dots.rows, 4);
}

// Columns that begin anywhere go to pairs of blocks that all run at once, if there are not too
// many.
TEST(SkinnyCut, SpreadsColumnsOverPairs) {
  for (int64_t length : {9, 33, 515, 1501, 2111, 2301, 4097, 5846, 6071, 6073, 20001, 1000001}) {
    for (int64_t k : {128, 2031, 20001, 300001}) {
      const SkinnyCut cut = CutOf(length, k, 1, false, false);
      ASSERT_EQ(cut.kind, SkinnyKind::kLine);
      EXPECT_GE(cut.line_columns, 1);
      EXPECT_LE(cut.line_columns, kMostLineColumns) << length << " " << k;
      EXPECT_GE(cut.Blocks() / kLinePair / cut.ChunkBlocks() * cut.line_columns, length);
      if (length <= int64_t{66} * kMostLineColumns && cut.ChunkBlocks() == 1) {
        EXPECT_LE(cut.Blocks(), 132) << length << " " << k;
      }
    }
  }
  EXPECT_EQ(CutOf(5846, 2031, 1, false, false).line_columns, 89);
  EXPECT_EQ(CutOf(3001, 20001, 1, false, false).way, SkinnyWay::kOneByOne);
  EXPECT_EQ(CutOf(515, 3001, 1, false, false).way, SkinnyWay::kSecondPass);
  EXPECT_EQ(CutOf(4096, 4096, 1, false, true).kind, SkinnyKind::kStrips);
}

// A launch may find operands aligned that the problem does not promise to be, and then takes
// another kernel: the workspace is the same.
TEST(SkinnyCut, KeepsRoomWhereverOperandsLie) {
  for (int64_t length : {512, 1504, 2304, 3000, 4096}) {
    for (int64_t k : {2049, 5001, 100001}) {
      const SkinnyCut ragged = CutOf(length, k, 1, false, false);
      const SkinnyCut aligned = CutOf(length, k, 1, false, true);
      EXPECT_NE(ragged.kind, aligned.kind);
      EXPECT_GE(ragged.partial_elements, aligned.partial_elements) << length << " " << k;
    }
  }
}

}  // namespace
}  // namespace gemm
