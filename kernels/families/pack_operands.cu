#include "kernels/cuda_status.h"
#include "kernels/families/divisor.cuh"
#include "kernels/families/pack_operands.h"

namespace gemm {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = 256;
constexpr int kRows = kThreads / kTile;   // that a block reads or writes at once
constexpr int kElements = kTile / kRows;  // of a thread

struct Packings {
  Packing a;
  Packing b;
  Divisor by_tiles_outer[2];
  Divisor by_tiles_depth[2];
  int blocks_a;
};

// A block copies 64 x 64 elements, through shared memory if they are to be transposed. A thread's
// are a constant number of rows apart: an address is an addition. Each computed from scratch, it
// was 49 instructions an element, and 0.6 us more for two operands of 1023 x 1023 (H200,
// 2026-11-30).
__global__ void __launch_bounds__(kThreads) PackOperands(const __grid_constant__ Packings p) {
  __shared__ float tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile;
  const int y = static_cast<int>(threadIdx.x) / kTile;
  const bool is_b = static_cast<int>(blockIdx.x) >= p.blocks_a;
  const Packing& o = is_b ? p.b : p.a;
  const int index = static_cast<int>(blockIdx.x) - (is_b ? p.blocks_a : 0);
  const int row_of_tiles = Quotient(index, p.by_tiles_outer[is_b]);
  const int batch = Quotient(row_of_tiles, p.by_tiles_depth[is_b]);
  const auto tiles_outer = static_cast<int>((o.outer + kTile - 1) / kTile);
  const auto tiles_depth = static_cast<int>((o.depth + kTile - 1) / kTile);
  const int64_t outer0 = int64_t{index - row_of_tiles * tiles_outer} * kTile;
  const int64_t depth0 = int64_t{row_of_tiles - batch * tiles_depth} * kTile;
  const auto outers = static_cast<int>(min(int64_t{kTile}, o.outer - outer0));
  const auto depths = static_cast<int>(min(int64_t{kTile}, o.depth - depth0));
  const bool transposes = o.outer_stride != 1;
  const int rows = transposes ? outers : depths;
  const int columns = transposes ? depths : outers;
  const int64_t stride = transposes ? o.outer_stride : o.depth_stride;
  const float* from = o.from + batch * o.batch_stride + outer0 * o.outer_stride +
                      depth0 * o.depth_stride + y * stride + x;
  // All loads before the first store, which might write what the next one reads, for all that the
  // compiler knows. 4 bytes at a time: with 16, transposed in shared memory, 4 to 8 us more for
  // 42 MB (H200, 2026-11-30).
  float v[kElements];
  const int rows_left = x < columns ? rows - y : 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (i * kRows < rows_left) v[i] = *from;
    from += kRows * stride;
  }
  if (transposes) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) tile[y + i * kRows][x] = v[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kElements; ++i) v[i] = tile[x][y + i * kRows];
  }
  float* to = o.to + (int64_t{batch} * o.depth + depth0 + y) * o.pitch + outer0 + x;
  const int depths_left = x < outers ? depths - y : 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (i * kRows < depths_left) *to = v[i];
    to += kRows * o.pitch;
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
                   {DivisorOf(a.tiles_outer()), DivisorOf(b.tiles_outer())},
                   {DivisorOf(a.tiles_depth()), DivisorOf(b.tiles_depth())},
                   static_cast<int>(a.blocks())};
  const auto blocks = static_cast<unsigned>(a.blocks() + b.blocks());
  PackOperands<<<blocks, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace gemm
