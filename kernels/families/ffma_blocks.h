// How many blocks a kernel of ffma_multiply.cuh has, and which of them take tiles in turns.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_BLOCKS_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_BLOCKS_H_

#include "kernels/families/ffma_gemm.h"

namespace gemm {

// Blocks that share `work` tiles: a place each, unless they would take too long. Then they take as
// many tiles each as make the least waves, since a last wave takes as long as a full one.
int BlocksInTurns(int work, int places, int most);

// Blocks for tiles that are dealt out in turns. Where as many are left over as there are
// multiprocessors, or fewer, each multiprocessor is to get one of them, which is more than anyone
// can say beforehand: blocks beyond the places get one each, and find their places when the first
// of two blocks on a multiprocessor is done, half a tile before the other.
int DealTiles(const FfmaShape& shape, int multiprocessors, FfmaGemm* g);

// Blocks that sum quarters one after the other keep sums in the workspace: no more of them than
// DealTiles makes on an H200, and no more tiles in a launch than they have done in a millisecond.
inline constexpr int kMostFoldingBlocks = 3 * 132;
int64_t MostTilesThatFold(const FfmaShape& shape, int64_t k);

// How long blocks take for so many tiles whose quarters they sum one after the other, and behind
// them as many pieces as the cut ones have quarters, in times of a tile in each place of an H200.
double QuarteredRounds(const FfmaShape& shape, int64_t whole, int64_t cut);

// Of so many matrices whose quarters blocks sum one after the other, those whose quarters different
// blocks sum and a second pass adds: where the tiles would leave many of a last round's places
// empty. `tiles` and `results` are a matrix's.
int64_t MatricesToCut(const FfmaShape& shape, int64_t matrices, int64_t tiles, int64_t results,
                      int64_t k);

// Whether blocks that start while the kernel before ends would crowd on the multiprocessors that
// are free first: where all could have had a place of their own, or one with fewer others. Up
// to 1.5 times as long, but 0.7 to 1 us less where they do not (H200, 2026-11-30).
bool Crowds(const FfmaShape& shape, int multiprocessors, int blocks);

// The workers, after what whole tiles they would take too long for.
int StreamKBlocks(const FfmaShape& shape, const FfmaGemm& g);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_BLOCKS_H_
