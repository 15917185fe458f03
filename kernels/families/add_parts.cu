#include "kernels/cuda_status.h"
#include "kernels/families/add_parts.h"
#include "kernels/families/ffma_pieces.cuh"
#include "kernels/families/ffma_store.cuh"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/sum_order.h"
#include "kernels/ptx/dependent_launch.cuh"

namespace gemm {
namespace {

constexpr int kThreads = 256;
// A thread has a group of 4 columns of a row of a tile.
template <int kTileM>
struct TileParts {
  static constexpr int kTileN = kTileM == StreamKOrder::kQuartersTile
                                    ? kTileM
                                    : StreamKOrder::kShort * StreamKOrder::kLong / kTileM;
  static constexpr int kElements = kTileM * kTileN;
  static constexpr int kBlocks = kElements / 4 / kThreads;
};

// blockIdx.x: a fraction of a cut tile; y: a matrix of the batch.
template <int kTileM>
__device__ __forceinline__ void AddPartsOf(const FfmaGemm& g) {
  constexpr int kTileN = TileParts<kTileM>::kTileN;
  constexpr int kElements = TileParts<kTileM>::kElements;
  constexpr int kBlocksATile = TileParts<kTileM>::kBlocks;
  const int tile = static_cast<int>(blockIdx.x) / kBlocksATile;
  const int64_t end = int64_t{tile + 1} * g.stages;
  const int first = StreamKShare::Of(g, tile);
  int last = first;  // the first that reaches the tile's end
  while (StreamKShare::Start(g, last + 1) < end) ++last;
  WaitForKernelBefore();
  if (first == last) return;  // a tile that one has summed whole
  FfmaPiece piece;
  FfmaTileAt(g, g.whole_tiles + tile, &piece);
  constexpr int kGroups = kTileN / 4;
  const int group = static_cast<int>(threadIdx.x) % kGroups;
  const int row = static_cast<int>(blockIdx.x) % kBlocksATile * (kThreads / kGroups) +
                  static_cast<int>(threadIdx.x) / kGroups;
  for (int64_t batch = blockIdx.y; batch < g.p.batch_count; batch += gridDim.y) {
    const float* from =
        g.partial + ((batch * StreamKParts(g) + first + tile) * kTileM + row) * kTileN + 4 * group;
    float4 sum = __ldcg(reinterpret_cast<const float4*>(from));
    for (int s = first + 1; s <= last; ++s) {
      from += kElements;
      const float4 v = __ldcg(reinterpret_cast<const float4*>(from));
      sum.x = __fadd_rn(sum.x, v.x);
      sum.y = __fadd_rn(sum.y, v.y);
      sum.z = __fadd_rn(sum.z, v.z);
      sum.w = __fadd_rn(sum.w, v.w);
    }
    FfmaStoreFour(g, batch, int64_t{piece.tile_m} * kTileM + row,
                  int64_t{piece.tile_n} * kTileN + 4 * group, sum);
  }
}

__global__ void __launch_bounds__(kThreads)
    AddParts(const __grid_constant__ FfmaGemm g, int tile_m) {
  switch (tile_m) {
    case StreamKOrder::kShort:
      return AddPartsOf<StreamKOrder::kShort>(g);
    case StreamKOrder::kLong:
      return AddPartsOf<StreamKOrder::kLong>(g);
    default:
      return AddPartsOf<StreamKOrder::kQuartersTile>(g);
  }
}

}  // namespace

cudaError_t PrepareAddParts() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, AddParts);
}

cudaError_t LaunchAddParts(const FfmaGemm& g, int tile_m, cudaStream_t stream) {
  const int blocks = tile_m == StreamKOrder::kShort ? TileParts<StreamKOrder::kShort>::kBlocks
                     : tile_m == StreamKOrder::kLong
                         ? TileParts<StreamKOrder::kLong>::kBlocks
                         : TileParts<StreamKOrder::kQuartersTile>::kBlocks;
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(g.cut_tiles * blocks),
                        static_cast<unsigned>(std::min<int64_t>(g.p.batch_count, 65535)));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, AddParts, g, tile_m);
}

}  // namespace gemm
