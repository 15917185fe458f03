// sliced: f32 products on Hopper whose result is too small to fill the device. Four warps of a
// block share a tile of 4096 results and sum a quarter of k each; where even that leaves
// multiprocessors idle, blocks share a tile too, each with a chunk of k, and a second pass adds the
// chunks. Where k is cut is in sum_order.h; the tile's picture is in ffma_multiply.cuh.
//
//   64 x 64   3 stages of 32 to 34 KiB, 16 k-steps a slice; two blocks a multiprocessor, 208 or 216
//             registers a consumer and 48 or 40 a producer thread
//
// The quarters meet in the ring once it has run dry; the same order of additions whoever adds.
//
// An operand with k contiguous is transposed on its way into shared memory: packing it first would
// cost a launch and a trip through memory that products this small do not make up for. A kernel is
// compiled for each pair of layouts. What is not 16-byte aligned is packed.
//
// Lost (H200, 2026-11-29): eight warps a tile and one block a multiprocessor, 0.88x against 1.05x
// of cuBLAS at 1024 cubed; 128 x 64 tiles, 0.89x; stages of 32 k-steps, five of them, with both
// operands copied by threads, 58 us against 49 at 1024 cubed; float atomics were not tried, since
// their order of additions is anybody's.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_multiply.cuh"

namespace gemm {
namespace {

constexpr FfmaShape kShape = {8, 1, 1, 4, 64, 3, 2};

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
constexpr FfmaConfig kConfigs[] = {
    {"sliced_f32_sm90_64x64x64_s3", NumericsClass::kQuarters, kShape, 0.836, 0.72, 30, 130},
    {"sliced_f32_sm90_64x64x64_s3_chunks", NumericsClass::kChunkedQuarters, kShape, 0.83, 0.776, 42,
     90},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int kFeedA, int kFeedB>
__global__ void __launch_bounds__(kShape.threads(), kShape.blocks)
    Sliced(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ FfmaGemm g) {
  // A thread that transposes both operands has more to remember.
  constexpr bool kBoth = kFeedA != 0 && kFeedB != 0;
  FfmaMultiply<FfmaKernel{kShape, static_cast<FfmaFeed>(kFeedA), static_cast<FfmaFeed>(kFeedB)},
               FfmaTiles, kBoth ? 208 : 216, kBoth ? 48 : 40>(g, &map_a, &map_b);
}

// Chunks are data, so both classes share their kernels.
constexpr FfmaFunctions kByFeed = {
    {{&Sliced<0, 0>, &Sliced<0, 1>}, {&Sliced<1, 0>, &Sliced<1, 1>}}};
constexpr FfmaFunctions kFunctions[] = {kByFeed, kByFeed};

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
