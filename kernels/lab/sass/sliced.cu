// One kernel of families/sliced.cu alone, for the tools that read machine code.

#include "kernels/families/ffma_multiply.cuh"

namespace gemm {

constexpr FfmaShape kShape = {8, 1, 1, 4, 64, 3, 2};

__global__ void __launch_bounds__(kShape.threads(), kShape.blocks)
    Alone(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          const __grid_constant__ FfmaGemm g) {
  FfmaMultiply<FfmaKernel{kShape, FfmaFeed::kBoxes, FfmaFeed::kBoxes}, FfmaOnePiece, 216, 40>(
      g, &map_a, &map_b);
}

}  // namespace gemm
