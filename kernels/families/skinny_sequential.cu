// One row, summed sequentially: short sums, and small products, whose class is that of all small
// ones so that they can share a launch. Batches of them come here.
//
//   columns   side by side: a thread has one, as in skinny_columns.cu, with all of its sum.
//   rows      k is contiguous: a warp has 32 of them. It reads 128 bytes of each, so that 32 loads
//             a thread are under way, and turns them through shared memory such that a thread has
//             32 elements of one row; what is next is asked for in the meantime.
//
// Blocks stay, and go on from strip to strip, of all matrices.

#include <algorithm>

#include "kernels/families/launch_records.h"
#include "kernels/families/skinny_columns.cuh"
#include "kernels/families/skinny_lines.h"

namespace gemm {
namespace {

constexpr int kRowPitch = 36;  // 16-byte aligned, and what a quarter warp reads meets no bank twice
constexpr int kRowGroup = 8;   // loads that are asked for together
static_assert(kLineStrip == kLineLoads);

constexpr int kTiles = kMostLineThreads / 32;
struct RowTile {
  float rows[kLineStrip][kRowPitch];
  float x[kLineStrip];
};

// A warp's stream of 32 products of 32 rows, a thread each of those.
class RowStream {
 public:
  __device__ __forceinline__ explicit RowStream(const SkinnyGemm& g)
      : matrix_(g.matrix), x_(g.x), left_(0), rows_left_(1) {}

  __device__ __forceinline__ void Begin(const SkinnyGemm& g, int item) {
    asm volatile("" : "+r"(item));
    left_ = 0;
    if (item >= g.line.items) return;
    const LineItem at(g, item);
    const int64_t j = int64_t{at.strip} * kLineStrip;
    rows_left_ = static_cast<int>(min(g.length - j, int64_t{kLineStrip}));
    matrix_ = g.matrix + at.batch * g.matrix_batch + j * g.matrix_row + Thread();
    x_ = g.x + at.batch * g.x_batch + Thread() * g.x_column;
    left_ = static_cast<int>(g.p.k);
  }
  // The first of each row, a thread each.
  __device__ __forceinline__ void Prefetch(const SkinnyGemm& g) const {
    if (left_ > 0 && Thread() < rows_left_) {
      PrefetchToL2(matrix_ - Thread() + Thread() * g.matrix_row);
    }
  }
  __device__ __forceinline__ void LoadX() { of_x_ = LoadIf<false>(x_, Thread(), left_, kNoX); }
  // Rows that do not exist are the last one again, and are not stored.
  template <int kFirst>
  __device__ __forceinline__ const float* Load(const SkinnyGemm& g, const float* row) {
    if (left_ >= kLineStrip) {
#pragma unroll
      for (int r = kFirst; r < kFirst + kRowGroup; ++r) {
        elements_[r] = LoadGlobal<true>(row);
        row = RowBehind(g, row, r);
      }
    } else {
#pragma unroll
      for (int r = kFirst; r < kFirst + kRowGroup; ++r) {
        elements_[r] = LoadIf<true>(row, Thread(), left_, kNoMatrix);
        row = RowBehind(g, row, r);
      }
    }
    return row;
  }
  template <int kFirst = 0>
  __device__ __forceinline__ void LoadAll(const SkinnyGemm& g, const float* row) {
    if constexpr (kFirst < kLineStrip) LoadAll<kFirst + kRowGroup>(g, Load<kFirst>(g, row));
  }
  // What has come goes to the tile, what is next is asked for.
  template <int kFirst = 0>
  __device__ __forceinline__ void StoreAndLoad(const SkinnyGemm& g, const float* row,
                                               RowTile* tile) {
    if constexpr (kFirst < kLineStrip) {
#pragma unroll
      for (int r = kFirst; r < kFirst + kRowGroup; ++r) tile->rows[r][Thread()] = elements_[r];
      StoreAndLoad<kFirst + kRowGroup>(g, Load<kFirst>(g, row), tile);
    }
  }
  __device__ __forceinline__ void StoreX(RowTile* tile) const { tile->x[Thread()] = of_x_; }
  __device__ __forceinline__ void Advance(const SkinnyGemm& g) {
    matrix_ += kLineStrip;
    x_ += kLineStrip * g.x_column;
    left_ -= kLineStrip;
  }
  __device__ __forceinline__ const float* Matrix() const { return matrix_; }
  __device__ __forceinline__ static int Thread() { return static_cast<int>(threadIdx.x) % 32; }

 private:
  __device__ __forceinline__ const float* RowBehind(const SkinnyGemm& g, const float* row,
                                                    int r) const {
    row += r + 1 < rows_left_ ? g.matrix_row : 0;
    asm volatile("" : "+l"(row));  // no multiples of the step, which would take registers
    return row;
  }

  const float* matrix_;
  const float* x_;
  int left_;  // products, of those that are loaded next and those behind
  int rows_left_;
  float of_x_;
  float elements_[kLineStrip];
};

__device__ __forceinline__ void SumRows(const SkinnyGemm& g, RowTile* tiles) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int thread = RowStream::Thread();
  const int item_step = static_cast<int>(gridDim.x) * warps;
  RowTile& tile = tiles[warp];
  int item = static_cast<int>(blockIdx.x) * warps + warp;
  RowStream stream(g);
  stream.Begin(g, item);
  stream.Prefetch(g);
  WaitForKernelBefore();
  LetKernelAfterStart();
  stream.LoadX();
  stream.LoadAll(g, stream.Matrix());
  stream.Advance(g);
  for (; item < g.line.items; item += item_step) {
    float sum = 0;
    auto left = static_cast<int>(g.p.k);
#pragma unroll 1
    do {
      left -= kLineStrip;
      if (left <= 0) stream.Begin(g, item + item_step);
      stream.StoreX(&tile);
      stream.LoadX();
      stream.StoreAndLoad(g, stream.Matrix(), &tile);
      stream.Advance(g);
      __syncwarp();
#pragma unroll
      for (int l = 0; l < kLineStrip; l += 4) {
        const float4 x = *reinterpret_cast<const float4*>(&tile.x[l]);
        const float4 row = *reinterpret_cast<const float4*>(&tile.rows[thread][l]);
        sum = MultiplyAdd(x.x, row.x, sum);
        sum = MultiplyAdd(x.y, row.y, sum);
        sum = MultiplyAdd(x.z, row.z, sum);
        sum = MultiplyAdd(x.w, row.w, sum);
      }
      __syncwarp();  // the tile may be written
    } while (left > 0);
    const LineItem at(g, item);
    const int64_t j = int64_t{at.strip} * kLineStrip + thread;
    if (j < g.length) StoreLine(g, at.batch, j, sum);
  }
}

__global__ void __launch_bounds__(kMostLineThreads, 2)
    SkinnySequential(const __grid_constant__ SkinnyGemm g) {
  __shared__ __align__(16) RowTile tiles[kTiles];
  if (g.matrix_column == 1) {
    SumRows(g, tiles);
  } else {
    SumColumns<1, 1>(g);
  }
}

}  // namespace

cudaError_t PrepareSkinnySequential(size_t shared_bytes) {
  return LoadKernel(reinterpret_cast<const void*>(&SkinnySequential), shared_bytes);
}

cudaError_t LaunchSkinnySequential(const SkinnyGemm& g, const LineLaunch& launch,
                                   cudaStream_t stream) {
  LineLaunch beside_tiles = launch;
  beside_tiles.shared_bytes -= std::min(launch.shared_bytes, kTiles * sizeof(RowTile));
  return LaunchLine(reinterpret_cast<const void*>(&SkinnySequential), g, beside_tiles, stream);
}

}  // namespace gemm
