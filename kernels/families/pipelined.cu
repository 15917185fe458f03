// pipelined: the large f32 products on Hopper. See ffma_pipeline.cuh for the tile's picture, the
// ring and why it looks as it does; here a warp owns 64 x 64 results and sums all of k.
//
//   128 x 256: 8 consumer warps, 4 stages of 49 KiB; one block a multiprocessor, 216 registers a
//   256 x 128  consumer and 72 a producer thread.
//   128 x 128: 4 consumer warps, 3 stages of 33 KiB; two blocks, 208 and 48. For results that
//              would leave a last wave of larger tiles half empty.
//
// Blocks stay and take tile after tile, so that the first stages of the next tile come in while the
// sums of this one are stored.
//
// Any product of f32: how the operands lie decides only how the producers copy. Rows that are not
// 16-byte aligned, and operands with k contiguous, are copied 4 bytes at a time.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_pipeline.cuh"

namespace gemm {
namespace {

// Fractions for the cost model: NVIDIA H200, 2026-11-29.
constexpr FfmaConfig kConfigs[] = {
    {"pipelined_f32_sm90_128x256x32_s4",
     NumericsClass::kSequential,
     {8, 2, 4, 1, 4, 1},
     0.78,
     0.76},
    {"pipelined_f32_sm90_256x128x32_s4",
     NumericsClass::kSequential,
     {8, 4, 2, 1, 4, 1},
     0.745,
     0.72},
    {"pipelined_f32_sm90_128x128x32_s3",
     NumericsClass::kSequential,
     {8, 2, 2, 1, 3, 2},
     0.74,
     0.70},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kConfigs[I].shape.threads(), kConfigs[I].shape.blocks)
    Pipelined(const __grid_constant__ FfmaGemm g) {
  constexpr bool kTwoBlocks = kConfigs[I].shape.blocks == 2;
  FfmaMultiply<kConfigs[I].shape, kTwoBlocks ? 208 : 216, kTwoBlocks ? 48 : 72>(g);
}

const void* const kFunctions[] = {
    reinterpret_cast<const void*>(&Pipelined<0>),
    reinterpret_cast<const void*>(&Pipelined<1>),
    reinterpret_cast<const void*>(&Pipelined<2>),
};

class Family final : public FfmaFamily {
 public:
  Family() : FfmaFamily("pipelined", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& PipelinedFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
