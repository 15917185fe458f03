// How products of one row or column are shared out among warps and blocks.

#include "kernels/families/skinny_cut.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gemm {
namespace {

constexpr int64_t kMultiprocessors = 132;

SkinnyCut CutOf(int64_t length, int64_t k, int64_t batch, bool along, bool aligned = false) {
  Problem problem = DenseProblem(DType::kF32, 1, length, k, batch);
  if (along) {
    problem.b.transposed = true;
    problem.b.ld = k;
  }
  return CutSkinny(problem, true, true, aligned, aligned);
}

// Every item has its warps, blocks fit where they are meant to, and none is empty.
TEST(SkinnyCut, SharesOutLinesAmongBlocksThatStay) {
  for (int64_t length : {1, 2, 9, 131, 133, 515, 1000, 3729, 4224, 4225, 20001, 100000}) {
    for (int64_t k : {128, 300, 1024, 2049, 9001, 100001, 5000000}) {
      for (int64_t batch : {1, 3, 100, 1100, 70000}) {
        for (const bool along : {false, true}) {
          const SkinnyCut cut = CutOf(length, k, batch, along);
          const LineCut& line = cut.line;
          SCOPED_TRACE(testing::Message() << length << " " << k << " " << batch << " " << along);
          ASSERT_TRUE(cut.IsLine());
          const bool dots = cut.kind == SkinnyKind::kDots;
          EXPECT_EQ(dots, along || length == 1);
          EXPECT_GE(line.strips * line.rows, length);
          EXPECT_LT((line.strips - 1) * line.rows, length);
          EXPECT_EQ(line.items, line.strips * line.parts * batch);
          const int item_warps = line.warps * line.share;
          EXPECT_EQ(line.block_warps % item_warps, 0);
          EXPECT_GE(line.places, 1);
          EXPECT_LE(line.places * line.block_warps,
                    line.warps > 1 ? kColumnWarpsTogether : kLineWarpsTogether);
          EXPECT_LE(line.blocks, kMultiprocessors * line.places);
          EXPECT_LT((line.blocks - 1) * (line.block_warps / item_warps), line.items);
          if (dots) {
            EXPECT_LE(32 * line.block_warps, kMostDotThreads);
            EXPECT_LE(line.share, kMostMeeting);
            EXPECT_LE(line.rows, kMostDotRows);
            EXPECT_LE(line.block_warps / line.share, kMostDotGroups);
            // Chunks that several warps sum find room where they meet.
            EXPECT_TRUE(line.share == 1 || cut.order.chunks <= kDeepChunkLanes || length == 1);
          } else {
            EXPECT_LE(line.share, kMostChunksTogether);
            EXPECT_EQ(line.block_warps, line.warps > 1 ? item_warps : line.block_warps);
          }
          if (line.parts > 1) {
            EXPECT_EQ(cut.way, SkinnyWay::kSecondPass);
            EXPECT_EQ(line.parts, cut.order.chunks);
            EXPECT_EQ(line.share, 1);
            EXPECT_EQ(cut.partial_elements, cut.order.chunks * cut.pitch * batch);
          } else {
            EXPECT_EQ(cut.way, SkinnyWay::kOneByOne);
            EXPECT_EQ(cut.partial_elements, 0);
          }
        }
      }
    }
  }
}

TEST(SkinnyCut, FillsTheDeviceWithLines) {
  // A batch's strips go to a warp each, those of a single product to eight, or two chunks to 16.
  EXPECT_EQ(CutOf(1190, 272, 34, false).line.warps, 1);
  EXPECT_EQ(CutOf(6603, 805, 1, false).line.warps, kColumnWarps);
  EXPECT_EQ(CutOf(6603, 805, 1, false).line.blocks, 207);
  EXPECT_EQ(CutOf(4096, 4096, 1, false).line.share, 2);
  EXPECT_EQ(CutOf(4096, 4096, 1, false).line.blocks, 128);
  EXPECT_EQ(CutOf(515, 3001, 1, false).way, SkinnyWay::kSecondPass);
  EXPECT_EQ(CutOf(515, 3001, 100, false).way, SkinnyWay::kOneByOne);
  // Rows, more of them at once where there are many, and of few the chunks by different warps.
  EXPECT_EQ(CutOf(7680, 2560, 1, true).line.rows, 2);
  EXPECT_EQ(CutOf(1000, 300, 64, true).line.rows, kMostDotRows);
  EXPECT_EQ(CutOf(1000, 1000, 1, true).line.rows, 1);
  EXPECT_EQ(CutOf(2000, 7489, 1, true).line.share, 2);
  EXPECT_EQ(CutOf(128, 20000, 1, true).line.share, kMostMeeting);
  EXPECT_EQ(CutOf(9, 100001, 1, true).line.share, 1);
  EXPECT_GT(CutOf(9, 100001, 1, true).line.parts, kMostMeeting);
  EXPECT_EQ(CutOf(9, 100001, 1000, true).line.parts, 1);
}

}  // namespace
}  // namespace gemm
