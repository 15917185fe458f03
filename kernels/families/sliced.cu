// sliced: f32 products on Hopper whose result is too small to fill the device. Four warps of a
// block share a tile of 4096 results and sum a quarter of k each; where even that leaves
// multiprocessors idle, blocks share a tile too, each with a chunk of k, and a second pass adds the
// chunks. Where k is cut is in sum_order.h; the tile's picture is in ffma_pipeline.cuh.
//
//   64 x 64             5 stages of 17 KiB    for results that are wide and high
//   32 x 128, 128 x 32  5 stages of 21 KiB    up to 32 rows or columns
//   16 x 256, 256 x 16  3 stages of 35 KiB    up to 16
//
// Two blocks a multiprocessor, 192 registers a consumer and 64 a producer thread. The quarters meet
// in the ring once it has run dry; the same order of additions whoever adds.
//
// Lost (H200, 2026-11-29): eight warps a tile and one block a multiprocessor, 0.88x against 1.05x
// of cuBLAS at 1024 cubed; 128 x 64 tiles, 0.89x; float atomics were not tried, since their order
// of additions is anybody's.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_pipeline.cuh"

namespace gemm {
namespace {

constexpr FfmaShape kShapes[] = {
    {8, 1, 1, 4, 5, 2},   // 64 x 64
    {4, 1, 1, 4, 5, 2},   // 32 x 128
    {16, 1, 1, 4, 5, 2},  // 128 x 32
    {2, 1, 1, 4, 3, 2},   // 16 x 256
    {32, 1, 1, 4, 3, 2},  // 256 x 16
};

// Fractions for the cost model: NVIDIA H200, 2026-11-29.
constexpr FfmaConfig kConfigs[] = {
    {"sliced_f32_sm90_64x64x32_s5", NumericsClass::kQuarters, kShapes[0], 0.57, 0.47},
    {"sliced_f32_sm90_32x128x32_s5", NumericsClass::kQuarters, kShapes[1], 0.56, 0.47},
    {"sliced_f32_sm90_128x32x32_s5", NumericsClass::kQuarters, kShapes[2], 0.47, 0.30},
    {"sliced_f32_sm90_16x256x32_s3", NumericsClass::kQuarters, kShapes[3], 0.50, 0.40},
    {"sliced_f32_sm90_256x16x32_s3", NumericsClass::kQuarters, kShapes[4], 0.30, 0.17},
    {"sliced_f32_sm90_64x64x32_s5_chunks", NumericsClass::kChunkedQuarters, kShapes[0], 0.57, 0.47},
    {"sliced_f32_sm90_32x128x32_s5_chunks", NumericsClass::kChunkedQuarters, kShapes[1], 0.56,
     0.50},
    {"sliced_f32_sm90_128x32x32_s5_chunks", NumericsClass::kChunkedQuarters, kShapes[2], 0.47,
     0.30},
    {"sliced_f32_sm90_16x256x32_s3_chunks", NumericsClass::kChunkedQuarters, kShapes[3], 0.50,
     0.40},
    {"sliced_f32_sm90_256x16x32_s3_chunks", NumericsClass::kChunkedQuarters, kShapes[4], 0.30,
     0.17},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kShapes[I].threads(), kShapes[I].blocks)
    Sliced(const __grid_constant__ FfmaGemm g) {
  FfmaMultiply<kShapes[I], 192, 64>(g);
}

// Chunks are data, so both classes share their kernels.
const void* const kFunctions[] = {
    reinterpret_cast<const void*>(&Sliced<0>), reinterpret_cast<const void*>(&Sliced<1>),
    reinterpret_cast<const void*>(&Sliced<2>), reinterpret_cast<const void*>(&Sliced<3>),
    reinterpret_cast<const void*>(&Sliced<4>), reinterpret_cast<const void*>(&Sliced<0>),
    reinterpret_cast<const void*>(&Sliced<1>), reinterpret_cast<const void*>(&Sliced<2>),
    reinterpret_cast<const void*>(&Sliced<3>), reinterpret_cast<const void*>(&Sliced<4>),
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
