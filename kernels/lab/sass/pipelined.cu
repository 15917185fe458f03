// One kernel of families/pipelined.cu alone, for the tools that read machine code.

#include "kernels/families/ffma_multiply.cuh"

namespace gemm {

constexpr FfmaShape kShape = {8, 2, 4, 1, 32, 4, 1};

__global__ void __launch_bounds__(kShape.threads(), kShape.blocks)
    Alone(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          const __grid_constant__ FfmaGemm g) {
  FfmaMultiply<FfmaKernel{kShape, FfmaFeed::kBoxes, FfmaFeed::kBoxes}, FfmaDealtTiles, 232, 40>(
      g, &map_a, &map_b);
}

}  // namespace gemm
