// The kernels of variants.def as the host sees them.

#ifndef GEMMD_KERNELS_LAB_HARNESS_TILE_VARIANTS_H_
#define GEMMD_KERNELS_LAB_HARNESS_TILE_VARIANTS_H_

#include <cstring>

#include "device/tile.cuh"

namespace lab {

struct TileVariant {
  const char* name;
  bool stream_k;
  bool reads_transposed;  // A^T by TMA
  bool b_by_tma;
  int tile_m, tile_n, depth, slices, threads, shared_bytes, blocks_per_sm;
};

template <int kLaneRows, int kWarpsM, int kWarpsN, int kSlices, int kDepth, int kStages, int kA,
          int kB, int kUnroll, int kBlocksPerSm, int kConsumerRegisters, int kProducerRegisters>
constexpr TileVariant MakeTileVariant(const char* name, bool stream_k) {
  using F = TileConfig<kLaneRows, kWarpsM, kWarpsN, kSlices, kDepth, kStages, kA, kB>;
  return {name,    stream_k,    kA == kAFromTransposed, kB == kBByTma, F::kTileM, F::kTileN, kDepth,
          kSlices, F::kThreads, F::kSharedBytes,        kBlocksPerSm};
}

#define STREAM_K(name, ...) MakeTileVariant<__VA_ARGS__>(#name, true),
#define DATA_PARALLEL(name, ...) MakeTileVariant<__VA_ARGS__>(#name, false),
constexpr TileVariant kTileVariants[] = {
#include "variants.def"
};
#undef STREAM_K
#undef DATA_PARALLEL

inline const TileVariant& FindTileVariant(const char* name) {
  for (const TileVariant& v : kTileVariants) {
    if (std::strcmp(v.name, name) == 0) return v;
  }
  std::abort();
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_HARNESS_TILE_VARIANTS_H_
