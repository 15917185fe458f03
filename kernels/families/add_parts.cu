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
// A thread has a group of 4 columns of so many rows of a tile.
template <int kTileM>
struct TileParts {
  static constexpr bool kQuarters = kTileM == StreamKOrder::kQuartersTile;
  static constexpr int kTileN =
      kQuarters ? kTileM : StreamKOrder::kShort * StreamKOrder::kLong / kTileM;
  static constexpr int kElements = kTileM * kTileN;
  static constexpr int kRows = kQuarters ? 1 : 4;
  static constexpr int kBlocks = kElements / 4 / kThreads / kRows;
};

// blockIdx.x: a fraction of a cut tile; y: a matrix of the batch.
template <int kTileM>
__global__ void __launch_bounds__(kThreads) AddParts(const __grid_constant__ FfmaGemm g) {
  constexpr int kTileN = TileParts<kTileM>::kTileN;
  constexpr int kElements = TileParts<kTileM>::kElements;
  constexpr int kRows = TileParts<kTileM>::kRows;
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
  for (int64_t batch = blockIdx.y; batch < g.p.batch_count; batch += gridDim.y) {
    const int group = static_cast<int>(threadIdx.x) % kGroups;
    const int row0 = static_cast<int>(blockIdx.x) % kBlocksATile * (kThreads / kGroups * kRows) +
                     static_cast<int>(threadIdx.x) / kGroups;
    const float* from =
        g.partial + ((batch * StreamKParts(g) + first + tile) * kTileM + row0) * kTileN + 4 * group;
    float4 sum[kRows];
    for (int s = first; s <= last; ++s) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float4 v = __ldcg(
            reinterpret_cast<const float4*>(from + int64_t{r} * (kThreads / kGroups) * kTileN));
        if (s == first) {
          sum[r] = v;
        } else {
          sum[r].x = __fadd_rn(sum[r].x, v.x);
          sum[r].y = __fadd_rn(sum[r].y, v.y);
          sum[r].z = __fadd_rn(sum[r].z, v.z);
          sum[r].w = __fadd_rn(sum[r].w, v.w);
        }
      }
      from += kElements;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      FfmaStoreFour(g, batch, int64_t{piece.tile_m} * kTileM + row0 + r * (kThreads / kGroups),
                    int64_t{piece.tile_n} * kTileN + 4 * group, sum[r]);
    }
  }
}

template <int kTileM>
cudaError_t Launch(const FfmaGemm& g, cudaStream_t stream) {
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(g.cut_tiles * TileParts<kTileM>::kBlocks),
                        static_cast<unsigned>(std::min<int64_t>(g.p.batch_count, 65535)));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, AddParts<kTileM>, g);
}

}  // namespace

cudaError_t PrepareAddParts() {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, AddParts<StreamKOrder::kShort>));
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, AddParts<StreamKOrder::kLong>));
  return cudaFuncGetAttributes(&attributes, AddParts<StreamKOrder::kQuartersTile>);
}

cudaError_t LaunchAddParts(const FfmaGemm& g, int tile_m, cudaStream_t stream) {
  return tile_m == StreamKOrder::kShort  ? Launch<StreamKOrder::kShort>(g, stream)
         : tile_m == StreamKOrder::kLong ? Launch<StreamKOrder::kLong>(g, stream)
                                         : Launch<StreamKOrder::kQuartersTile>(g, stream);
}

}  // namespace gemm
