// Which pieces of work a block has, and in which order: tiles that are summed at once or by chunks
// of k, or a stream-K worker's share. Producers and consumers of a block go through the same list.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_PIECES_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_PIECES_CUH_

#include <cuda_runtime.h>

#include "kernels/families/divisor.cuh"
#include "kernels/families/ffma_gemm.h"

namespace gemm {

// A tile's products [begin, begin + length).
struct FfmaPiece {
  int64_t batch;
  int tile_m;
  int tile_n;
  int begin;
  int length;
  int slice_length;  // products that a warp of those that share the tile sums
  bool narrow;       // of FfmaShape's narrow columns
  int64_t part;      // where in `partial` the sums go; -1: they are results
};

// As the host knows it, where a block begins with it and everything waits. In loops over tiles
// ptxas would keep what that takes in registers: 5 instructions more in the loop that multiplies.
template <bool kOnePiece>
__device__ __forceinline__ int FfmaQuotient(int dividend, int divisor, Divisor by) {
  return kOnePiece ? Quotient(dividend, by) : dividend / divisor;
}

// Tiles are counted along m in groups of 8 tile rows, so that tiles that run at the same time share
// rows of A and columns of B in the L2 cache. As StreamKOrder::TileAt, but that narrow tiles come
// last: they find places when others are done.
template <bool kOnePiece = false>
__device__ __forceinline__ void FfmaTileAt(const FfmaGemm& g, int index, FfmaPiece* piece) {
  int tiles_n = g.tiles_n;
  piece->narrow = false;
  if constexpr (kOnePiece) {
    if (g.narrow_last) --tiles_n;
    piece->narrow = index >= g.tiles_m * tiles_n;
    if (piece->narrow) {
      piece->tile_m = index - g.tiles_m * tiles_n;
      piece->tile_n = tiles_n;
      return;
    }
  }
  const int in_group = kFfmaTileGroup * tiles_n;
  const int group = FfmaQuotient<kOnePiece>(index, in_group, g.by_group);
  index -= group * in_group;
  const int height = min(kFfmaTileGroup, g.tiles_m - group * kFfmaTileGroup);
  piece->tile_n = height == kFfmaTileGroup && kOnePiece
                      ? index / kFfmaTileGroup
                      : FfmaQuotient<kOnePiece>(index, height, g.by_last_height);
  piece->tile_m = group * kFfmaTileGroup + index - piece->tile_n * height;
}

// The chunks of a tile are a cluster, or come after those before them of all tiles.
template <bool kOnePiece = false>
__device__ __forceinline__ FfmaPiece FfmaChunkAt(const FfmaGemm& g, int index) {
  FfmaPiece piece;
  const int tiles = g.tiles_m * g.tiles_n;
  const int tile = FfmaQuotient<kOnePiece>(index, g.together, g.by_together);
  const int in_cluster = index - tile * g.together;
  const int matrix = FfmaQuotient<kOnePiece>(tile, tiles, g.by_tiles);
  FfmaTileAt<kOnePiece>(g, tile - matrix * tiles, &piece);
  const int batch = FfmaQuotient<kOnePiece>(matrix * g.together, g.chunks, g.by_chunks);
  const int chunk = matrix * g.together - batch * g.chunks + in_cluster;
  piece.batch = batch;
  piece.begin = chunk * g.chunk_length;
  piece.length = min(g.chunk_length, static_cast<int>(g.p.k) - piece.begin);
  piece.slice_length = g.slice_length;
  piece.part = g.chunks > 1 ? chunk * g.p.batch_count + batch : -1;
  return piece;
}

// Blocks take tiles in turns, but the last ones may have one tile each: they find places when the
// others are done.
struct FfmaDealtTiles {
  __device__ __forceinline__ static int InTurns(const FfmaGemm& g) {
    return g.work - (static_cast<int>(gridDim.x) - g.in_turns);
  }

  __device__ __forceinline__ static int Count(const FfmaGemm& g) {
    const int block = static_cast<int>(blockIdx.x);
    return block < g.in_turns ? (InTurns(g) - 1 - block) / g.in_turns + 1 : 1;
  }

  __device__ __forceinline__ static FfmaPiece At(const FfmaGemm& g, int i) {
    const int block = static_cast<int>(blockIdx.x);
    return FfmaChunkAt(
        g, block < g.in_turns ? block + i * g.in_turns : InTurns(g) + block - g.in_turns);
  }
};

// The same of tiles whose sum may be of four quarters, one after the other in one block: see
// ffma_fold.cuh. A quarter is a piece. Those of cut matrices are dealt out in turns behind the
// tiles of the others, and added by a second pass.
struct FfmaQuarteredTiles {
  // Where matrices are cut: a block's pieces of the others, and its first one of these.
  __device__ __forceinline__ static int Folded(const FfmaGemm& g) {
    const int more = static_cast<int>(blockIdx.x) < g.whole_more ? 1 : 0;
    return (g.whole_each + more) * 4;
  }
  __device__ __forceinline__ static int FirstCut(const FfmaGemm& g) {
    const int after = static_cast<int>(blockIdx.x) - g.whole_more;
    return after < 0 ? after + g.in_turns : after;
  }

  __device__ __forceinline__ static int Count(const FfmaGemm& g) {
    if (g.cut_matrices == 0) return g.quarters * FfmaDealtTiles::Count(g);
    const int cut = g.cut_matrices * g.tiles_m * g.tiles_n * 4;
    return Folded(g) + (cut - 1 - FirstCut(g) + g.in_turns) / g.in_turns;
  }

  // Of a piece of a matrix that is not cut.
  __device__ __forceinline__ static int QuarterOf(const FfmaGemm& g, int i) {
    return i & (g.quarters - 1);
  }

  __device__ __forceinline__ static FfmaPiece At(const FfmaGemm& g, int i) {
    FfmaPiece piece;
    int quarter;
    if (g.cut_matrices > 0 && i >= Folded(g)) {
      const int cut = FirstCut(g) + (i - Folded(g)) * g.in_turns;
      const int tiles = g.tiles_m * g.tiles_n;
      const int matrix = cut / 4 / tiles;
      quarter = cut & 3;
      FfmaTileAt(g, cut / 4 - matrix * tiles, &piece);
      piece.batch = g.p.batch_count - g.cut_matrices + matrix;
      piece.part = quarter * g.cut_matrices + matrix;
    } else {
      quarter = QuarterOf(g, i);
      piece = FfmaDealtTiles::At(g, g.quarters > 1 ? i / 4 : i);
    }
    piece.begin = quarter * g.slice_length;
    piece.length = min(g.slice_length, static_cast<int>(g.p.k) - piece.begin);
    return piece;
  }
};

// The one piece of a block whose warps share tiles, held in shared memory: what is worked out from
// the block's number would take up registers in the main loop.
struct FfmaHeldPiece {
  const FfmaPiece* piece;

  __device__ __forceinline__ static int Count(const FfmaGemm& /*g*/) { return 1; }
  __device__ __forceinline__ FfmaPiece At(const FfmaGemm& /*g*/, int /*i*/) const { return *piece; }
};

// The share of a stream-K worker in the cut tiles: stages [first, last), counted through them.
struct StreamKShare {
  int64_t first;
  int64_t last;
  int tile;      // the cut tile in which it begins
  int segments;  // tiles in which it lies: 0, 1 or 2

  __device__ __forceinline__ StreamKShare(const FfmaGemm& g, int worker) {
    first = last = tile = segments = 0;
    if (worker < 0 || worker >= g.sharers) return;
    first = Start(g, worker);
    last = Start(g, worker + 1);
    tile = static_cast<int>(first / g.stages);
    segments = last > int64_t{tile + 1} * g.stages ? 2 : 1;
  }

  // Whose share the first stage of a cut tile is in.
  __device__ __forceinline__ static int Of(const FfmaGemm& g, int tile) {
    const int64_t begin = int64_t{tile} * g.stages;
    auto sharer = static_cast<int>(begin * g.sharers / (int64_t{g.cut_tiles} * g.stages));
    while (sharer > 0 && Start(g, sharer) > begin) --sharer;
    while (Start(g, sharer + 1) <= begin) ++sharer;
    return sharer;
  }

  __device__ __forceinline__ static int64_t Start(const FfmaGemm& g, int sharer) {
    return int64_t{sharer} * (int64_t{g.cut_tiles} * g.stages) / g.sharers;
  }
};

// Parts of a matrix in `partial`: that of cut tile t by sharer s is number s + t, since from part
// to part one of the two goes up.
__device__ __forceinline__ int64_t StreamKParts(const FfmaGemm& g) {
  return int64_t{g.cut_tiles} + g.sharers;
}

// What a sharer has of a cut tile.
__device__ __forceinline__ void FfmaPart(const FfmaGemm& g, const StreamKShare& share, int sharer,
                                         int tile, int batch, int stage, FfmaPiece* piece) {
  FfmaTileAt(g, g.whole_tiles + tile, piece);
  const int64_t origin = int64_t{tile} * g.stages;
  const int begin = static_cast<int>(max(share.first - origin, int64_t{0}));
  const int end = static_cast<int>(min(share.last - origin, int64_t{g.stages}));
  piece->batch = batch;
  piece->part = begin > 0 || end < g.stages ? batch * StreamKParts(g) + sharer + tile : -1;
  piece->begin = begin * stage;
  piece->length = static_cast<int>(min(g.p.k, int64_t{end} * stage)) - piece->begin;
}

// Whole tile `index` of the batch.
__device__ __forceinline__ void FfmaWholeTile(const FfmaGemm& g, int index, FfmaPiece* piece) {
  const int batch = index / g.whole_tiles;
  piece->batch = batch;
  piece->begin = 0;
  piece->length = static_cast<int>(g.p.k);
  piece->part = -1;
  FfmaTileAt(g, index - batch * g.whole_tiles, piece);
}

// A block whose warps share tiles has one piece of work. Where the last tiles are cut, the parts
// come after all whole tiles: first those with which shares begin, then what is left of the shares,
// the longest first, since it starts where the shortest has ended.
__device__ __forceinline__ FfmaPiece FfmaCutAt(const FfmaGemm& g, int index) {
  constexpr int kStage = 64;
  constexpr int kGranule = 32;  // four times that of a quarter
  FfmaPiece piece;
  const int whole = static_cast<int>(g.p.batch_count) * g.whole_tiles;
  if (index < whole) {
    FfmaWholeTile(g, index, &piece);
  } else {
    const int parts = g.sharers + g.second_parts;
    const int batch = (index - whole) / parts;
    const int part = index - whole - batch * parts;
    const int tile = part < g.sharers ? -1 : g.seconds[part - g.sharers];
    const int sharer = tile < 0 ? part : StreamKShare::Of(g, tile);
    const StreamKShare share(g, sharer);
    FfmaPart(g, share, sharer, tile < 0 ? share.tile : tile, batch, kStage, &piece);
  }
  piece.slice_length = (piece.length + kGranule - 1) / kGranule * (kGranule / 4);
  return piece;
}

struct FfmaOnePiece {
  __device__ __forceinline__ static FfmaPiece OfBlock(const FfmaGemm& g) {
    const int index = static_cast<int>(blockIdx.x);
    return g.sharers > 0 ? FfmaCutAt(g, index) : FfmaChunkAt<true>(g, index);
  }
};

// Whole tiles are dealt out to all blocks in turns, through the whole batch; every matrix has the
// same cuts, if any. The last kWorkers blocks, which may be all, are the workers that share them.
struct StreamKPieces {
  static constexpr int kStage = 32;
  static constexpr int kWorkers = 132;

  __device__ __forceinline__ static int WholeTiles(const FfmaGemm& g) {
    const int block = static_cast<int>(blockIdx.x);
    return block < g.work ? (g.work - 1 - block) / static_cast<int>(gridDim.x) + 1 : 0;
  }

  __device__ __forceinline__ static int Worker() {
    return static_cast<int>(blockIdx.x) + kWorkers - static_cast<int>(gridDim.x);
  }

  __device__ __forceinline__ static int Count(const FfmaGemm& g) {
    return StreamKShare(g, Worker()).segments * static_cast<int>(g.p.batch_count) + WholeTiles(g);
  }

  // The shares last: whole tiles begin with the products that are packed first (ffma_pack.cuh).
  __device__ __forceinline__ static FfmaPiece At(const FfmaGemm& g, int i) {
    FfmaPiece piece;
    const int whole_tiles = WholeTiles(g);
    const int worker = Worker();
    const StreamKShare share(g, worker);
    piece.slice_length = 0;
    const int segments = share.segments * static_cast<int>(g.p.batch_count);
    i = i < whole_tiles ? i + segments : i - whole_tiles;
    const int whole = i - segments;
    if (whole >= 0) {
      const int index = whole * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
      FfmaWholeTile(g, index, &piece);
      return piece;
    }
    const int batch = i / share.segments;
    FfmaPart(g, share, worker, share.tile + i - batch * share.segments, batch, kStage, &piece);
    return piece;
  }
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_PIECES_CUH_
