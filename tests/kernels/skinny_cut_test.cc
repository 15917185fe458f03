// How products of one row or column are shared out among blocks.

#include "kernels/families/skinny_cut.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gemm {
namespace {

SkinnyCut CutOf(int64_t length, int64_t k, int64_t batch, bool aligned) {
  return CutSkinny(DenseProblem(DType::kF32, 1, length, k, batch), true, true, aligned, aligned);
}

// A single result is shared out among warps: few chunks, or those of a batch that fills the device,
// meet in one block, which has room for their sums.
TEST(SkinnyCut, GivesChunksOfASingleResultToWarps) {
  for (int64_t k : {128, 300, 2049, 4096, 4097, 100001, 5000000}) {
    for (int64_t batch : {1, 3, 1100, 70000}) {
      const SkinnyCut cut = CutOf(1, k, batch, false);
      ASSERT_EQ(cut.kind, SkinnyKind::kDot);
      EXPECT_LE(cut.order.chunks, kMostSingleChunks) << k << " " << batch;
      EXPECT_EQ(cut.way == SkinnyWay::kSecondPass, cut.order.chunks > 16 && batch <= 1024)
          << k << " " << batch;
      EXPECT_GE(cut.Blocks() * (cut.Blocks() > 1 ? kDotWarps : kMostSingleChunks),
                cut.order.chunks);
      EXPECT_EQ(cut.partial_elements,
                cut.way == SkinnyWay::kSecondPass ? cut.order.chunks * batch : 0);
    }
  }
}

// Columns that begin anywhere go to pairs of blocks that all run at once, if there are not too
// many.
TEST(SkinnyCut, SpreadsColumnsOverPairs) {
  for (int64_t length : {9, 33, 515, 1501, 2111, 2301, 4097, 5846, 6071, 6073, 20001, 1000001}) {
    for (int64_t k : {128, 2031, 20001, 300001}) {
      const SkinnyCut cut = CutOf(length, k, 1, false);
      ASSERT_EQ(cut.kind, SkinnyKind::kLine);
      EXPECT_GE(cut.line_columns, 1);
      EXPECT_LE(cut.line_columns, kMostLineColumns) << length << " " << k;
      EXPECT_GE(cut.Blocks() / kLinePair / cut.ChunkBlocks() * cut.line_columns, length);
      if (length <= int64_t{66} * kMostLineColumns && cut.ChunkBlocks() == 1) {
        EXPECT_LE(cut.Blocks(), 132) << length << " " << k;
      }
    }
  }
  EXPECT_EQ(CutOf(5846, 2031, 1, false).line_columns, 89);
  EXPECT_EQ(CutOf(3001, 20001, 1, false).way, SkinnyWay::kOneByOne);
  EXPECT_EQ(CutOf(515, 3001, 1, false).way, SkinnyWay::kSecondPass);
  EXPECT_EQ(CutOf(4096, 4096, 1, true).kind, SkinnyKind::kStrips);
}

// A launch may find operands aligned that the problem does not promise to be, and then takes
// another kernel: the workspace is the same.
TEST(SkinnyCut, KeepsRoomWhereverOperandsLie) {
  for (int64_t length : {512, 1504, 2304, 3000, 4096}) {
    for (int64_t k : {2049, 5001, 100001}) {
      const SkinnyCut ragged = CutOf(length, k, 1, false);
      const SkinnyCut aligned = CutOf(length, k, 1, true);
      EXPECT_NE(ragged.kind, aligned.kind);
      EXPECT_GE(ragged.partial_elements, aligned.partial_elements) << length << " " << k;
    }
  }
}

}  // namespace
}  // namespace gemm
