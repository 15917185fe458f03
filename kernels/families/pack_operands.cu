#include <algorithm>

#include "kernels/cuda_status.h"
#include "kernels/families/pack_operands.h"

namespace gemm {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = 256;
constexpr int kRows = kThreads / kTile;   // that a block reads or writes at once
constexpr int kElements = kTile / kRows;  // of a thread
constexpr int64_t kMaxBlocks = int64_t{1} << 30;

struct Packings {
  Packing a;
  Packing b;
  int64_t tiles_outer[2];
  int64_t tiles_depth[2];
  int64_t blocks_a;
  int64_t blocks;
};

// A block copies 64 x 64 elements, through shared memory if they are to be transposed.
__global__ void __launch_bounds__(kThreads) PackOperands(const __grid_constant__ Packings p) {
  __shared__ float tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile;
  const int y = static_cast<int>(threadIdx.x) / kTile;
  for (int64_t block = blockIdx.x; block < p.blocks; block += gridDim.x) {
    const bool is_b = block >= p.blocks_a;
    const Packing& o = is_b ? p.b : p.a;
    const int64_t index = is_b ? block - p.blocks_a : block;
    const int64_t row_of_tiles = index / p.tiles_outer[is_b];
    const int64_t outer0 = (index - row_of_tiles * p.tiles_outer[is_b]) * kTile;
    const int64_t batch = row_of_tiles / p.tiles_depth[is_b];
    const int64_t depth0 = (row_of_tiles - batch * p.tiles_depth[is_b]) * kTile;
    const int outers = static_cast<int>(min(int64_t{kTile}, o.outer - outer0));
    const int depths = static_cast<int>(min(int64_t{kTile}, o.depth - depth0));
    const float* from =
        o.from + batch * o.batch_stride + outer0 * o.outer_stride + depth0 * o.depth_stride;
    float* to = o.to + (batch * o.depth + depth0) * o.pitch + outer0;
    // All loads before the first store, which might write what the next one reads, for all that the
    // compiler knows. 4 bytes at a time: with 16, transposed in shared memory, 4 to 8 us more for
    // 42 MB (H200, 2026-11-30).
    float v[kElements];
    if (o.outer_stride == 1) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const int l = y + i * kRows;
        if (l < depths && x < outers) v[i] = from[l * o.depth_stride + x];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const int row = y + i * kRows;
        if (row < outers && x < depths) v[i] = from[row * o.outer_stride + x];
      }
#pragma unroll
      for (int i = 0; i < kElements; ++i) tile[y + i * kRows][x] = v[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kElements; ++i) v[i] = tile[x][y + i * kRows];
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int l = y + i * kRows;
      if (l < depths && x < outers) to[l * o.pitch + x] = v[i];
    }
  }
}

}  // namespace

int64_t Packing::tiles_outer() const { return (outer + kTile - 1) / kTile; }
int64_t Packing::tiles_depth() const { return (depth + kTile - 1) / kTile; }

cudaError_t PreparePackOperands() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, PackOperands);
}

cudaError_t LaunchPackOperands(const Packing& a, const Packing& b, cudaStream_t stream) {
  const Packings p{a,
                   b,
                   {a.tiles_outer(), b.tiles_outer()},
                   {a.tiles_depth(), b.tiles_depth()},
                   a.blocks(),
                   a.blocks() + b.blocks()};
  const auto blocks = static_cast<unsigned>(std::min(p.blocks, kMaxBlocks));
  PackOperands<<<blocks, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace gemm
