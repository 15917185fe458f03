// stream_k: large f32 products on Hopper whose tiles do not fill whole waves. Of tiles of 128 x
// 256, as pipelined.cu sums them, those that are left over are cut along k over all workers; where
// a worker's share ends inside a tile, its sum is a part, which a second pass adds to the others in
// the order of k. Where the cuts are is in sum_order.h: they and so the bits depend on the sizes
// alone, for 132 workers on whatever device.
//
// A worker is a block, one a multiprocessor; nothing waits for a block that has not begun, so they
// need not run at the same time. Where tiles take long, each whole one has a block of its own
// (ffma_family.cc).
//
// Lost (H200, 2026-11-29): adding the parts in the same kernel, each sharer a part of the tile once
// all of them have arrived: 17 us at 1024 cubed beyond the multiplication, and blocks that wait for
// each other.

#include "kernels/families/families.h"
#include "kernels/families/ffma_family.h"
#include "kernels/families/ffma_multiply.cuh"
#include "kernels/families/sum_order.h"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30.
constexpr FfmaConfig kConfigs[] = {
    {"stream_k_f32_sm90_128x256x32_s4",
     NumericsClass::kStreamK,
     {8, 2, 4, 1, 32, 4, 1, 8, 16, false, true},
     0.845,
     0.845,
     10,
     35},
    {"stream_k_f32_sm90_256x128x32_s4",
     NumericsClass::kStreamK,
     {8, 4, 2, 1, 32, 4, 1, 8, 16, false, true},
     0.845,
     0.845,
     10,
     35},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);
static_assert(kConfigs[0].shape.tile_m() == StreamKOrder::kShort &&
                  kConfigs[0].shape.tile_n() == StreamKOrder::kLong &&
                  kConfigs[1].shape.tile_m() == StreamKOrder::kLong &&
                  kConfigs[1].shape.tile_n() == StreamKOrder::kShort &&
                  StreamKPieces::kStage == StreamKOrder::kStage &&
                  StreamKPieces::kWorkers == StreamKOrder::kWorkers,
              "cut as the class says");

template <int I>
__global__ void __launch_bounds__(kConfigs[I].shape.threads(), 1)
    StreamK(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
            const __grid_constant__ FfmaGemm g) {
  FfmaMultiply<FfmaKernel{kConfigs[I].shape, FfmaFeed::kBoxes, FfmaFeed::kBoxes}, StreamKPieces,
               232, 40>(g, &map_a, &map_b);
}

const FfmaFunctions kFunctions[] = {FfmaBoxes(&StreamK<0>), FfmaBoxes(&StreamK<1>)};

class Family final : public FfmaFamily {
 public:
  Family() : FfmaFamily("stream_k", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& StreamKFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
