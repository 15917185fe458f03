// sliced: f32 products on Hopper whose result is too small to fill the device. Four warps of a
// block share a tile and sum a quarter of k each; where even that leaves multiprocessors idle,
// blocks share a tile too, each with a chunk of k: they add their chunks in each other's shared
// memory, as a cluster, or, where clusters would not all find places at once, in a second pass.
// Where k is cut is in sum_order.h; the tile's picture is in ffma_multiply.cuh.
//
//   tile      results a thread   blocks a multiprocessor   stages
//   64 x 64   8 x 16             2                         3 of 32 or 33 KiB, or 2 of 32 to 34
//   48 x 64   12 x 8             2                         3 of 28 to 30
//   32 x 64   8 x 8              3                         2 of 24 to 26, or 4 of 12 to 13
//   96 x 48   12 x 12            2                         2 of 36 to 38, or 4 of 18 to 19
//   48 x 96   12 x 12            2                         2 of 36 to 38, or 4 of 18 to 19
//   32 x 128  8 x 16             2                         2 of 41
//
// Tiles of all sizes give the same bits. The larger ones take less of shared memory's time for each
// product (12 x 12: 24 bytes a multiply-add of a warp's, 8 x 8: 32); which is fastest depends on
// what of the last round of tiles is empty: at 896 cubed 64 x 64 takes 46.4 us, 32 x 64 37.2; at
// 768 cubed 35 and 48 x 96 25.7 (H200, 2026-11-30). 64 x 48 and 64 x 32 never won by more than 2 %.
//
// The last is for an A with k contiguous beside a B that boxes bring, and compiled for that alone:
// threads transpose half as many of its elements for each product as with 64 x 64. Tiles of which D
// has no more columns than a thread's first four come last, and have a loop for those.
//
//   16 k-steps a slice and stage, or 8; 208 or 216 registers a consumer and 48 or 40 a producer
//   thread where two blocks share a multiprocessor, 120 and 40 where three do.
//
// Of a product of 17 to 40 columns, D^T is computed instead, in tiles of few rows.
//
// The quarters meet in the ring once it has run dry; the same order of additions whoever adds.
//
// An operand that the copy engine cannot fetch is copied by threads, and transposed if it has k
// contiguous: packing it first would cost a launch and a trip through memory, which few products
// this small make up for. A kernel is compiled for each pair of ways but one. Where threads copy
// both, tiles of 64 x 64 do with two stages, to leave the L1 cache more, and those of 32 x 64,
// 96 x 48 and 48 x 96 have twice as many of half the depth.
//
// What is left over of 64 x 64 tiles behind whole waves may be cut along k over all places, in a
// class of its own: what stream_k.cu does, but for parts of 16 KiB, and each piece a block.
//
// Lost (H200, 2026-11-30): cutting what is left over behind one tile a multiprocessor, 53 us for 50
// at 915x929x907, since some get two; an operand whose rows are not aligned by boxes of every
// fourth row, up to three floats too far to the right, which threads then moved: 59.4 us for 58.0
// at 915x929x907, 23.1 for 20.7 at 250x2222x333. 2026-11-29: eight warps a tile and one block a
// multiprocessor, 0.88x against 1.05x of cuBLAS at 1024 cubed; 128 x 64 tiles, 0.89x; stages of 32
// k-steps, five of them, with both operands copied by threads, 58 us against 49 at 1024 cubed;
// float atomics were not tried, since their order of additions is anybody's.

#include <array>
#include <iterator>
#include <utility>

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_multiply.cuh"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
struct Tile {
  std::string_view name;
  std::string_view chunks_name;
  FfmaShape shape;
  double math_fraction;
  double lone_fraction;
  double begin;
};
constexpr double kRagged = 30;

// clang-format off
constexpr Tile kTiles[] = {
    {"sliced_f32_sm90_64x64x64_s3", "sliced_f32_sm90_64x64x64_s3_chunks",
     {8, 1, 1, 4, 64, 3, 2}, 0.819, 0.687, 91},
    {"sliced_f32_sm90_48x64x64_s3", "sliced_f32_sm90_48x64x64_s3_chunks",
     {4, 1, 1, 4, 64, 3, 2, 12, 8}, 0.808, 0.722, 113},
    {"sliced_f32_sm90_32x64x64_s2", "sliced_f32_sm90_32x64x64_s2_chunks",
     {4, 1, 1, 4, 64, 2, 3, 8, 8, true}, 0.743, 0.670, 63},
    {"sliced_f32_sm90_96x48x64_s2", "sliced_f32_sm90_96x48x64_s2_chunks",
     {8, 1, 1, 4, 64, 2, 2, 12, 12, true}, 0.820, 0.708, 81},
    {"sliced_f32_sm90_48x96x64_s2", "sliced_f32_sm90_48x96x64_s2_chunks",
     {4, 1, 1, 4, 64, 2, 2, 12, 12, true}, 0.827, 0.702, 78},
    {"sliced_f32_sm90_32x128x64_s2", "sliced_f32_sm90_32x128x64_s2_chunks",
     {4, 1, 1, 4, 64, 2, 2}, 0.795, 0.652, 73},
};
// clang-format on

// Each tile in two classes, and the first in a third. Chunks and cuts are data, so all share their
// kernels.
constexpr auto kConfigs = [] {
  std::array<FfmaConfig, 2 * std::size(kTiles) + 1> configs{};
  configs.back() = {"sliced_f32_sm90_64x64x64_s3_stream_k",
                    NumericsClass::kStreamKQuarters,
                    kTiles[0].shape,
                    kTiles[0].math_fraction,
                    kTiles[0].lone_fraction,
                    kTiles[0].begin,
                    kRagged};
  for (size_t i = 0; i + 1 < configs.size(); ++i) {
    const Tile& tile = kTiles[i / 2];
    const bool chunks = i % 2 != 0;
    configs[i] = {chunks ? tile.chunks_name : tile.name,
                  chunks ? NumericsClass::kChunkedQuarters : NumericsClass::kQuarters,
                  tile.shape,
                  tile.math_fraction,
                  tile.lone_fraction,
                  tile.begin,
                  kRagged};
  }
  return configs;
}();
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);
static_assert(kTiles[0].shape.tile_m() == StreamKOrder::kQuartersTile &&
                  kTiles[0].shape.tile_n() == StreamKOrder::kQuartersTile,
              "cut as the class says");

template <int kTile, int kFeedA, int kFeedB>
__global__ void __launch_bounds__(kTiles[kTile].shape.threads(), kTiles[kTile].shape.blocks)
    Sliced(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ FfmaGemm g) {
  constexpr FfmaShape kShape = kTiles[kTile].shape;
  // What a thread remembers to see to both operands. A spilled register, wherever it is, makes
  // ptxas put the loop's operands where every second multiply-add waits for a bank of the register
  // file, not every seventh. With 8 x 16 results consumers need what producers can spare.
  constexpr bool kBoth = kFeedA != 0 && kFeedB != 0;
  constexpr int kProducer = kShape.blocks == 2 && (kBoth || kShape.columns < 16) ? 48 : 40;
  constexpr int kConsumer = (kShape.blocks == 2 ? 256 : 160) - kProducer;
  FfmaMultiply<FfmaKernel{kShape, static_cast<FfmaFeed>(kFeedA), static_cast<FfmaFeed>(kFeedB)},
               FfmaOnePiece, kConsumer, kProducer>(g, &map_a, &map_b);
}

// All but A copied by threads and B by boxes: see FfmaRounds.
template <int kTile>
constexpr FfmaFunctions AllFeeds() {
  return {{{&Sliced<kTile, 0, 0>, &Sliced<kTile, 0, 1>, &Sliced<kTile, 0, 2>},
           {&Sliced<kTile, 1, 0>, &Sliced<kTile, 1, 1>, &Sliced<kTile, 1, 2>},
           {nullptr, &Sliced<kTile, 2, 1>, &Sliced<kTile, 2, 2>}},
          FfmaPacking::kWherePays};
}

// The long tile's short side is of the operand that threads transpose, beside one by boxes.
template <int kTile>
constexpr FfmaFunctions ByFeed() {
  if constexpr (kTiles[kTile].shape.tile_n() == 128) {
    return {{{}, {&Sliced<kTile, 1, 0>}, {}}, FfmaPacking::kRefused};
  } else {
    return AllFeeds<kTile>();
  }
}

template <size_t... kConfig>
constexpr auto FunctionsOf(std::index_sequence<kConfig...> /*configs*/) {
  return std::array{ByFeed<static_cast<int>(kConfig / 2 % std::size(kTiles))>()...};
}
constexpr auto kFunctions = FunctionsOf(std::make_index_sequence<kConfigs.size()>());

class Family final : public FfmaFamily {
 public:
  Family() : FfmaFamily("sliced", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& SlicedFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
