#include "kernels/cuda_status.h"
#include "kernels/families/add_parts.h"
#include "kernels/families/ffma_pieces.cuh"
#include "kernels/families/ffma_store.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/ptx/dependent_launch.cuh"

namespace gemm {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = StreamKOrder::kShort * StreamKOrder::kLong;  // of a tile
constexpr int kRows = 4;  // of a tile, each a group of 4 columns a thread
constexpr int kBlocksATile = kElements / 4 / kThreads / kRows;

// blockIdx.x: a fraction of a cut tile; y: a matrix of the batch.
template <int kTileM>
__global__ void __launch_bounds__(kThreads) AddParts(const __grid_constant__ FfmaGemm g) {
  const int tile = static_cast<int>(blockIdx.x) / kBlocksATile;
  const int64_t begin = int64_t{tile} * g.stages;
  const int64_t end = begin + g.stages;
  // The first sharer that goes beyond the tile's begin, and the first that reaches its end.
  auto first = static_cast<int>(begin * g.sharers / (int64_t{g.cut_tiles} * g.stages));
  while (first > 0 && StreamKShare::Start(g, first) > begin) --first;
  while (StreamKShare::Start(g, first + 1) <= begin) ++first;
  int last = first;
  while (StreamKShare::Start(g, last + 1) < end) ++last;
  WaitForKernelBefore();
  if (first == last) return;  // a tile that one has summed whole
  FfmaPiece piece;
  FfmaTileAt(g, g.whole_tiles + tile, &piece);
  constexpr int kTileN = kElements / kTileM;
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
      FfmaStoreFour(g.p, g.store_16, batch,
                    int64_t{piece.tile_m} * kTileM + row0 + r * (kThreads / kGroups),
                    int64_t{piece.tile_n} * kTileN + 4 * group, sum[r]);
    }
  }
}

}  // namespace

cudaError_t PrepareAddParts() {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, AddParts<StreamKOrder::kShort>));
  return cudaFuncGetAttributes(&attributes, AddParts<StreamKOrder::kLong>);
}

cudaError_t LaunchAddParts(const FfmaGemm& g, int tile_m, cudaStream_t stream) {
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(g.cut_tiles * kBlocksATile),
                        static_cast<unsigned>(std::min<int64_t>(g.p.batch_count, 65535)));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config,
                            tile_m == StreamKOrder::kShort ? AddParts<StreamKOrder::kShort>
                                                           : AddParts<StreamKOrder::kLong>,
                            g);
}

}  // namespace gemm
