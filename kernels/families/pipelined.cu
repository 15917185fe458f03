// pipelined: the large f32 products on Hopper. See ffma_multiply.cuh for the tile's picture, the
// ring and why it looks as it does; here a warp owns 64 x 64 results and sums all of k.
//
//   256 x 128: 8 consumer warps, 4 stages of 48 KiB; one block a multiprocessor, 232 registers a
//              consumer and 40 a producer thread.
//
// 128 x 256 and two blocks of 128 x 128 were here too: each the fastest of 2 of 898 measured
// products, by 1 to 2 %.
//
// Blocks stay and take tile after tile, so that the first stages of the next tile come in while the
// sums of this one are stored; but for a millisecond at most.
//
// Any product of f32: an operand that the copy engine cannot fetch, which A is unless transposed,
// is packed by warps that would be idle, while the others multiply what is packed already
// (ffma_pack.cuh), or, of a batch, before; rows of D that are not aligned are stored through 20 KiB
// of their own.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_multiply.cuh"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
constexpr FfmaConfig kConfigs[] = {
    {"pipelined_f32_sm90_256x128x32_s4",
     NumericsClass::kSequential,
     {8, 4, 2, 1, 32, 4, 1, 8, 16, false, true},
     0.852,
     0.852,
     14,
     14},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

__global__ void __launch_bounds__(kConfigs[0].shape.threads(), kConfigs[0].shape.blocks)
    Pipelined(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
              const __grid_constant__ FfmaGemm g) {
  FfmaMultiply<FfmaKernel{kConfigs[0].shape, FfmaFeed::kBoxes, FfmaFeed::kBoxes}, FfmaDealtTiles,
               232, 40>(g, &map_a, &map_b);
}

const FfmaFunctions kFunctions[] = {FfmaBoxes(&Pipelined)};

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
