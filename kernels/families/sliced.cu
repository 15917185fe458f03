// sliced: f32 products on Hopper whose result is too small to fill the device. Four warps of a
// block share a tile and sum a quarter of k each; where even that leaves multiprocessors idle,
// blocks share a tile too, each with a chunk of k: they add their chunks in each other's shared
// memory, as a cluster, or, where clusters would not all find places at once, in a second pass.
// Where k is cut is in sum_order.h; the tile's picture is in ffma_multiply.cuh.
//
//   tile      results a thread   blocks a multiprocessor   stages
//   64 x 64   8 x 16             2                         3 of 32 to 34 KiB
//   48 x 64   12 x 8             2                         3 of 28 to 30
//   32 x 64   8 x 8              3                         2 of 24 to 26
//   96 x 48   12 x 12            2                         2 of 36 to 38
//   48 x 96   12 x 12            2                         2 of 36 to 38
//
// Tiles of all sizes give the same bits. The larger ones take less of shared memory's time for each
// product (12 x 12: 24 bytes a multiply-add of a warp's, 8 x 8: 32); which is fastest depends on
// what of the last round of tiles is empty: at 896 cubed 64 x 64 takes 46.4 us, 32 x 64 37.2; at
// 768 cubed 35 and 48 x 96 25.7 (H200, 2026-11-30). 64 x 48 and 64 x 32 never won by more than 2 %.
//
//   16 k-steps a slice and stage; 208 or 216 registers a consumer and 48 or 40 a producer thread
//   where two blocks share a multiprocessor, 120 and 40 where three do.
//
// The quarters meet in the ring once it has run dry; the same order of additions whoever adds.
//
// An operand that the copy engine cannot fetch is copied by threads, and transposed if it has k
// contiguous: packing it first would cost a launch and a trip through memory, which few products
// this small make up for. A kernel is compiled for each pair of ways.
//
// Lost (H200, 2026-11-30): storing rows of D that are not 16-byte aligned element by element, next
// to each other within a warp, by way of the ring: 0.7 us more at 1022 cubed. 2026-11-29: eight
// warps a tile and one block a multiprocessor, 0.88x against 1.05x of cuBLAS at 1024 cubed; 128 x
// 64 tiles, 0.89x; stages of 32 k-steps, five of them, with both operands copied by threads, 58 us
// against 49 at 1024 cubed; float atomics were not tried, since their order of additions is
// anybody's.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_multiply.cuh"

namespace gemm {
namespace {

constexpr FfmaShape kShapes[] = {
    {8, 1, 1, 4, 64, 3, 2},          // 64 x 64
    {4, 1, 1, 4, 64, 3, 2, 12, 8},   // 48 x 64
    {4, 1, 1, 4, 64, 2, 3, 8, 8},    // 32 x 64
    {8, 1, 1, 4, 64, 2, 2, 12, 12},  // 96 x 48
    {4, 1, 1, 4, 64, 2, 2, 12, 12},  // 48 x 96
};

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
constexpr FfmaConfig kConfigs[] = {
    {"sliced_f32_sm90_64x64x64_s3", NumericsClass::kQuarters, kShapes[0], 0.834, 0.719, 125, 108},
    {"sliced_f32_sm90_64x64x64_s3_chunks", NumericsClass::kChunkedQuarters, kShapes[0], 0.834,
     0.719, 125, 108},
    {"sliced_f32_sm90_48x64x64_s3", NumericsClass::kQuarters, kShapes[1], 0.845, 0.782, 115, 108},
    {"sliced_f32_sm90_48x64x64_s3_chunks", NumericsClass::kChunkedQuarters, kShapes[1], 0.845,
     0.782, 115, 108},
    {"sliced_f32_sm90_32x64x64_s2", NumericsClass::kQuarters, kShapes[2], 0.791, 0.708, 91, 108},
    {"sliced_f32_sm90_32x64x64_s2_chunks", NumericsClass::kChunkedQuarters, kShapes[2], 0.791,
     0.708, 91, 108},
    {"sliced_f32_sm90_96x48x64_s2", NumericsClass::kQuarters, kShapes[3], 0.806, 0.724, 93, 108},
    {"sliced_f32_sm90_96x48x64_s2_chunks", NumericsClass::kChunkedQuarters, kShapes[3], 0.806,
     0.724, 93, 108},
    {"sliced_f32_sm90_48x96x64_s2", NumericsClass::kQuarters, kShapes[4], 0.863, 0.797, 126, 108},
    {"sliced_f32_sm90_48x96x64_s2_chunks", NumericsClass::kChunkedQuarters, kShapes[4], 0.863,
     0.797, 126, 108},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int kShape, int kFeedA, int kFeedB>
__global__ void __launch_bounds__(kShapes[kShape].threads(), kShapes[kShape].blocks)
    Sliced(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ FfmaGemm g) {
  constexpr FfmaShape kTheShape = kShapes[kShape];
  // A thread that copies both operands has more to remember.
  constexpr bool kBoth = kFeedA != 0 && kFeedB != 0;
  constexpr int kProducer = kTheShape.blocks == 2 && kBoth ? 48 : 40;
  constexpr int kConsumer = (kTheShape.blocks == 2 ? 256 : 160) - kProducer;
  FfmaMultiply<FfmaKernel{kTheShape, static_cast<FfmaFeed>(kFeedA), static_cast<FfmaFeed>(kFeedB)},
               FfmaTiles, kConsumer, kProducer>(g, &map_a, &map_b);
}

template <int kShape>
constexpr FfmaFunctions ByFeed() {
  return {{{&Sliced<kShape, 0, 0>, &Sliced<kShape, 0, 1>, &Sliced<kShape, 0, 2>},
           {&Sliced<kShape, 1, 0>, &Sliced<kShape, 1, 1>, &Sliced<kShape, 1, 2>},
           {&Sliced<kShape, 2, 0>, &Sliced<kShape, 2, 1>, &Sliced<kShape, 2, 2>}},
          FfmaPacking::kWherePays};
}

// Chunks are data, so both classes share their kernels.
constexpr FfmaFunctions kFunctions[] = {
    ByFeed<0>(), ByFeed<0>(), ByFeed<1>(), ByFeed<1>(), ByFeed<2>(),
    ByFeed<2>(), ByFeed<3>(), ByFeed<3>(), ByFeed<4>(), ByFeed<4>(),
};

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
