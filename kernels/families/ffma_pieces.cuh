// Which pieces of work a block has, and in which order: tiles that are summed at once or by chunks
// of k, or a stream-K worker's share. Producers and consumers of a block go through the same list.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_PIECES_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_PIECES_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_gemm.h"

namespace gemm {

// A tile's products [begin, begin + length).
struct FfmaPiece {
  int64_t batch;
  int tile_m;
  int tile_n;
  int begin;
  int length;
  int64_t part;  // where in `partial` the sums go; -1: they are results
};

// Tiles are counted along m in groups of 8 tile rows, so that tiles that run at the same time share
// rows of A and columns of B in the L2 cache. As StreamKOrder::TileAt.
__device__ __forceinline__ void FfmaTileAt(const FfmaGemm& g, int index, FfmaPiece* piece) {
  constexpr int kGroup = 8;
  const int in_group = kGroup * g.tiles_n;
  const int group = index / in_group;
  index -= group * in_group;
  const int height = min(kGroup, g.tiles_m - group * kGroup);
  piece->tile_n = index / height;
  piece->tile_m = group * kGroup + index - piece->tile_n * height;
}

// The chunks of a tile are a cluster, or come after those before them of all tiles.
struct FfmaTiles {
  __device__ __forceinline__ static int Count(const FfmaGemm& g) {
    const int first = static_cast<int>(blockIdx.x);
    const int step = static_cast<int>(gridDim.x);
    return first < g.work ? (g.work - 1 - first) / step + 1 : 0;
  }

  __device__ __forceinline__ static FfmaPiece At(const FfmaGemm& g, int i) {
    return Number(g, static_cast<int>(blockIdx.x) + i * static_cast<int>(gridDim.x));
  }

  __device__ __forceinline__ static FfmaPiece Number(const FfmaGemm& g, int index) {
    FfmaPiece piece;
    const int tiles = g.tiles_m * g.tiles_n;
    const int in_cluster = index % g.together;
    const int matrix = index / g.together / tiles;
    FfmaTileAt(g, index / g.together - matrix * tiles, &piece);
    const int batch = matrix * g.together / g.chunks;
    const int chunk = matrix * g.together - batch * g.chunks + in_cluster;
    piece.batch = batch;
    piece.begin = chunk * g.chunk_length;
    piece.length = min(g.chunk_length, static_cast<int>(g.p.k) - piece.begin);
    piece.part = g.chunks > 1 ? chunk * g.p.batch_count + batch : -1;
    return piece;
  }
};

// The same, but the last blocks may have one tile each: they find places when blocks that take
// tiles in turns are done.
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
    return FfmaTiles::Number(
        g, block < g.in_turns ? block + i * g.in_turns : InTurns(g) + block - g.in_turns);
  }
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

  __device__ __forceinline__ static int64_t Start(const FfmaGemm& g, int sharer) {
    return int64_t{sharer} * (int64_t{g.cut_tiles} * g.stages) / g.sharers;
  }
};

// Parts of a matrix in `partial`: that of cut tile t by sharer s is number s + t, since from part
// to part one of the two goes up.
__device__ __forceinline__ int64_t StreamKParts(const FfmaGemm& g) {
  return int64_t{g.cut_tiles} + g.sharers;
}

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

  // The shares first: their parts are long written when the second pass comes.
  __device__ __forceinline__ static FfmaPiece At(const FfmaGemm& g, int i) {
    FfmaPiece piece;
    const int worker = Worker();
    const StreamKShare share(g, worker);
    piece.begin = 0;
    piece.length = static_cast<int>(g.p.k);
    piece.part = -1;
    const int whole = i - share.segments * static_cast<int>(g.p.batch_count);
    if (whole >= 0) {
      const int index = whole * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
      const int batch = index / g.whole_tiles;
      piece.batch = batch;
      FfmaTileAt(g, index - batch * g.whole_tiles, &piece);
      return piece;
    }
    const int batch = i / share.segments;
    const int tile = share.tile + i - batch * share.segments;
    piece.batch = batch;
    FfmaTileAt(g, g.whole_tiles + tile, &piece);
    const int64_t origin = int64_t{tile} * g.stages;
    const int begin = static_cast<int>(max(share.first - origin, int64_t{0}));
    const int end = static_cast<int>(min(share.last - origin, int64_t{g.stages}));
    if (begin > 0 || end < g.stages) piece.part = batch * StreamKParts(g) + worker + tile;
    piece.begin = begin * kStage;
    piece.length = static_cast<int>(min(g.p.k, int64_t{end} * kStage)) - piece.begin;
    return piece;
  }
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_PIECES_CUH_
