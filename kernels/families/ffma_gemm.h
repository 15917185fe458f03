// The shapes and the kernel argument of the families that are built on ffma_multiply.cuh.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_GEMM_H_

#include <algorithm>
#include <cstdint>

#include "kernels/families/divisor.h"
#include "kernels/families/pack_operands.h"
#include "kernels/families/strided_gemm.h"

namespace gemm {

// How a tile of an operand comes into shared memory, where it lies with the rows of op(A) or the
// columns of op(B), its "outer" index, contiguous.
enum class FfmaFeed : uint8_t {
  kBoxes,        // outer index contiguous, rows 16-byte aligned: by the tensor copy engine
  kTransposing,  // k contiguous: transposed on the way, 4 bytes at a time
  kCopying,      // outer index contiguous, any alignment: 4 bytes at a time
};
inline constexpr int kFfmaFeeds = 3;

inline constexpr int kFfmaProducers = 128;
inline constexpr int kFfmaUnroll = 8;     // k-steps of the loop's body
inline constexpr int kFfmaTileGroup = 8;  // tile rows that are gone through together
inline constexpr int kFfmaPackers = kFfmaProducers / 32 - 1;  // warps
inline constexpr int kFfmaPackTile = 32;   // rows and columns that a warp packs at a time
inline constexpr int kMostCutTiles = 132;  // of tiles whose parts are blocks of their own

// How the results are shared out; see ffma_multiply.cuh.
struct FfmaShape {
  int lane_rows;  // threads of a warp along m; 32 / lane_rows along n
  int warps_m;
  int warps_n;
  int slices;  // 1 or 4
  int depth;   // k-steps a stage, over all slices
  int stages;
  int blocks;    // a multiprocessor
  int rows = 8;  // results of a thread
  int columns = 16;
  // Stages of half the depth, and twice as many, where threads copy both operands: a ring of three
  // quarters is then on its way while one is multiplied, not one of a half.
  bool halves = false;
  // The kernel packs itself what boxes cannot fetch: see ffma_pack.cuh.
  bool packs = false;
  // Where quarters may be summed one after the other (ffma_fold.cuh): of the ring's stages, those
  // in whose place sums of the quarters before wait; of a thread's sums, those that wait behind it.
  int lent_stages = 0;
  int kept_behind = 0;

  constexpr int lane_columns() const { return 32 / lane_rows; }
  constexpr int tile_m() const { return rows * lane_rows * warps_m; }
  constexpr int tile_n() const { return columns * lane_columns() * warps_n; }
  constexpr int consumer_warps() const { return warps_m * warps_n * slices; }
  constexpr int threads() const { return 32 * consumer_warps() + kFfmaProducers; }
  constexpr int slice_depth() const { return depth / slices; }
  // Of a thread's sums, those that wait where stages were, and of a block's those that find no room
  // in shared memory.
  constexpr int kept_in_ring() const {
    return lent_stages * depth * (tile_m() + tile_n()) / (32 * consumer_warps());
  }
  constexpr int kept_elsewhere() const {
    return 32 * consumer_warps() * (rows * columns - kept_in_ring() - kept_behind);
  }
  // Whether there is a loop for tiles of which D has no more columns than a thread's first four.
  constexpr bool narrows() const { return slices > 1 && columns == 16; }
  constexpr int narrow_columns() const { return narrows() ? 4 * lane_columns() : 0; }
};

// A shape and how its operands come: what is compiled.
struct FfmaKernel {
  FfmaShape shape;
  FfmaFeed feed_a;
  FfmaFeed feed_b;

  // 4 floats of padding put the 8 x 4 floats that a producer warp transposes at once into 32
  // different banks; boxes lie packed.
  constexpr int pitch_a() const {
    return shape.tile_m() + (feed_a == FfmaFeed::kTransposing ? 4 : 0);
  }
  constexpr int pitch_b() const {
    return shape.tile_n() + (feed_b == FfmaFeed::kTransposing ? 4 : 0);
  }
  constexpr bool by_threads() const {
    return feed_a != FfmaFeed::kBoxes && feed_b != FfmaFeed::kBoxes;
  }
  constexpr int halves() const { return shape.halves && by_threads() ? 2 : 1; }
  constexpr int depth() const { return shape.depth / halves(); }
  constexpr int bytes_a() const { return pitch_a() * depth() * 4; }
  constexpr int stage_bytes() const { return bytes_a() + pitch_b() * depth() * 4; }
  // Whether rings of all stages leave the L1 cache little room. Threads copy parts of lines, whose
  // rest it keeps for later: if both operands come so, a stage less is better, 55 us for 60 at 1023
  // cubed (H200, 2026-11-30).
  constexpr bool crowded() const {
    return shape.slices > 1 && shape.blocks * shape.stages * halves() * stage_bytes() > 190 * 1024;
  }
  constexpr int stages() const {
    return (shape.stages - (by_threads() && crowded() ? 1 : 0)) * halves();
  }
  // The ring and its barriers, two a stage.
  constexpr int ring_bytes() const { return (stage_bytes() + 16) * stages(); }
  // Through which a warp stores rows of D that are not aligned, one result of each thread's rows at
  // a time; the padding puts two rows into different banks. Warps that share a tile do without.
  constexpr int staging_pitch() const { return shape.columns * shape.lane_columns() + 16; }
  constexpr int staging_bytes() const {  // a warp
    return std::max(shape.lane_rows * staging_pitch() * 4, shape.kept_behind * 32 * 4);
  }
  static constexpr int kPieceBytes = 64;  // of a block that has only one
  // Whether producer warps that boxes leave idle can pack operands: ffma_pack.cuh.
  constexpr bool packs() const {
    return feed_a == FfmaFeed::kBoxes && feed_b == FfmaFeed::kBoxes && shape.packs;
  }
  constexpr int shared_bytes() const {
    return ring_bytes() +
           (shape.slices == 1 ? shape.consumer_warps() * staging_bytes() : kPieceBytes);
  }
  // Behind those, where it packs.
  constexpr int packing_bytes() const {
    return packs() ? kFfmaPackers * kFfmaPackTile * (kFfmaPackTile + 1) * 4 : 0;
  }
};

// What has to be 0 when a launch that packs by itself begins, and is again when it ends.
struct alignas(16) FfmaPackCounts {
  static constexpr int kMostDone = 1022;
  int taken;            // shares
  int left;             // packers and those who wait for them, when they need the counts no more
  int done[kMostDone];  // shares of each phase, then of each later group
};

// Packing by the kernel that multiplies, in shares of a packing tile; see ffma_pack.cuh. First, in
// phases, what the tiles need that run at first: the first products of all columns and of the first
// group of rows, then the next products. Then the other groups of rows, one after the other.
struct FfmaOwnPacking {
  FfmaPackCounts* counts;  // null: nothing is packed
  Packing a;
  Packing b;
  int phases;
  int group;          // packing tiles of a group of A's rows
  int of_phase;       // shares, A's first
  int of_all_phases;  // after which those of later groups come
  int of_group;       // of these, each
  int shares;
  Divisor by_group;
  Divisor by_group_tiles;  // tile rows of a group
  Divisor by_of_phase;
  Divisor by_of_group;
};

struct FfmaGemm {
  StridedGemm<float> p;
  int box_step_a;  // from one matrix of the batch to the next: 1, or 0 if they share one
  int box_step_b;
  bool turned;       // rows of p are columns of D, and of C: p is D^T = B^T A^T
  bool store_16;     // rows of D, and of C if it is read, are 16-byte aligned, and not turned
  bool store_whole;  // and C is not read
  int tiles_m;
  int tiles_n;
  bool narrow_last;  // the last column of tiles is narrow, and comes after all others
  int chunks;
  int together;  // chunks of a tile that follow each other, all or one
  Divisor by_together;
  Divisor by_chunks;
  Divisor by_tiles;        // of a matrix
  Divisor by_group;        // tiles in a group of tile rows, see ffma_pieces.cuh
  Divisor by_last_height;  // tile rows of the last group
  // batch_count * chunks * tiles; of stream_k only whole tiles, of stream_k_quarters their parts
  // too.
  int work;
  // Of FfmaDealtTiles.
  int in_turns;      // blocks that take tiles in turns; any beyond take one each
  int late_clocks;   // by which the second half of them begins to multiply later
  int chunk_length;  // see sum_order.h
  int slice_length;  // products that a warp sums at once: a quarter, or all
  int quarters;      // that a warp sums one after the other and adds: 4, or 1
  int ring_stages;   // in use, where quarters are added
  int cut_matrices;  // the last ones, whose quarters are pieces of different blocks
  int whole_each;    // tiles of the others that a block has beside these,
  int whole_more;    // and so many blocks have one more
  float one;         // see ffma_tile.cuh
  // Sums of chunks, or of quarters of cut matrices, [chunk][batch][m][partial_pitch], or of parts
  // of cut tiles, [batch][part][tile_m][tile_n].
  float* partial;
  float* kept;  // what blocks keep for themselves between quarters
  int64_t partial_pitch;
  // stream_k, see sum_order.h.
  int stages;
  int whole_tiles;
  int cut_tiles;
  int sharers;       // 0 where nothing is cut
  int second_parts;  // of sharers whose share goes on in another tile, each a cut tile's first
  uint8_t seconds[kMostCutTiles];  // these tiles, the longest part first
  FfmaOwnPacking own;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_GEMM_H_
