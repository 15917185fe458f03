// What a warp does whose threads have a column each: skinny_columns.cu draws the picture.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_COLUMNS_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_COLUMNS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/skinny_lines.cuh"
#include "kernels/families/skinny_lines.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/prefetch.cuh"

namespace gemm {

inline constexpr int kColumnGroup = 8;  // loads that are asked for together

// s[i] += s[i + kCount / 2], then the next half.
template <int kCount, int kSize>
__device__ __forceinline__ void AddHalves(float (&s)[kSize]) {
  if constexpr (kCount > 1) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) s[i] = __fadd_rn(s[i], s[i + kCount / 2]);
    AddHalves<kCount / 2>(s);
  }
}

// A thread's stream of rows, every kWarps-th, which are summed in kOrder lanes.
template <int kWarps, int kOrder>
class ColumnStream {
 public:
  static constexpr int kLanes = kOrder / kWarps;     // a thread
  static constexpr int kStep = kLineLoads * kWarps;  // products under way

  // A warp's strip of an item, or none.
  __device__ __forceinline__ void Begin(const SkinnyGemm& g, int item, int chunk, int first_row) {
    // Here and not before the loop, where registers would have to keep it.
    asm volatile("" : "+r"(item));
    left_ = 0;
    if (item >= g.line.items || chunk >= g.chunks) return;
    const int thread = static_cast<int>(threadIdx.x) % 32;
    const LineItem at(g, item);
    const int64_t begin = chunk * g.chunk_length + first_row;
    // Columns that do not exist are not stored.
    const int64_t j = min(int64_t{at.strip} * kLineStrip + thread, g.length - 1);
    matrix_ = g.matrix + at.batch * g.matrix_batch + begin * g.matrix_column + j * g.matrix_row;
    x_ = g.x + at.batch * g.x_batch + (begin + kWarps * thread) * g.x_column;
    left_ = ChunkCount(g, chunk) - first_row;
  }
  // The rows that it begins with, a thread each.
  __device__ __forceinline__ void Prefetch(const SkinnyGemm& g) const {
    const int thread = static_cast<int>(threadIdx.x) % 32;
    if (kWarps * thread < left_) PrefetchToL2(matrix_ + kWarps * thread * g.matrix_column);
  }

  __device__ __forceinline__ void LoadX(const SkinnyGemm& g) {
    next_x_ = LoadIf<false>(x_, kWarps * (static_cast<int>(threadIdx.x) % 32), left_, kNoX);
    x_ += kStep * g.x_column;
  }
  // In branches, so that no load is asked for before what was in its register is used up.
  template <int kFirst>
  __device__ __forceinline__ void Load(int64_t row_step) {
    if ((kFirst + kColumnGroup - 1) * kWarps < left_) {
#pragma unroll
      for (int i = kFirst; i < kFirst + kColumnGroup; ++i) {
        rows_[i] = LoadGlobal<kWarps == 1>(matrix_);
        NextRow(row_step);
      }
    } else {
#pragma unroll
      for (int i = kFirst; i < kFirst + kColumnGroup; ++i) {
        rows_[i] = LoadIf<kWarps == 1>(matrix_, i * kWarps, left_, kNoMatrix);
        NextRow(row_step);
      }
    }
  }
  template <int kFirst>
  __device__ __forceinline__ void Add(float (&sum)[kLanes]) const {
#pragma unroll
    for (int i = kFirst; i < kFirst + kColumnGroup; ++i) {
      const float x = __shfl_sync(0xffffffff, x_of_rows_, i);
      sum[i % kLanes] = MultiplyAdd(x, rows_[i], sum[i % kLanes]);
    }
  }
  __device__ __forceinline__ void Advance() {
    x_of_rows_ = next_x_;
    left_ -= kStep;
  }

  // What has come is added, what is next asked for.
  template <int kFirst = 0>
  __device__ __forceinline__ void AddAndLoad(int64_t row_step, float (&sum)[kLanes]) {
    if constexpr (kFirst < kLineLoads) {
      Add<kFirst>(sum);
      Load<kFirst>(row_step);
      AddAndLoad<kFirst + kColumnGroup>(row_step, sum);
    }
  }
  template <int kFirst = 0>
  __device__ __forceinline__ void LoadAll(int64_t row_step) {
    if constexpr (kFirst < kLineLoads) {
      Load<kFirst>(row_step);
      LoadAll<kFirst + kColumnGroup>(row_step);
    }
  }

 private:
  // Row by row: multiples of the step that the compiler would keep take registers from the rows.
  __device__ __forceinline__ void NextRow(int64_t row_step) {
    matrix_ += row_step;
    asm volatile("" : "+l"(matrix_));
  }

  const float* matrix_;
  const float* x_;
  int left_;  // products, of the rows that are loaded next and those behind
  float next_x_;
  float x_of_rows_;
  float rows_[kLineLoads];
};

template <int kWarps, int kOrder>
__device__ __forceinline__ void SumColumns(const SkinnyGemm& g) {
  using Stream = ColumnStream<kWarps, kOrder>;
  constexpr int kMostSums = kWarps == 1 ? 1 : kMostChunksTogether * kWarps;
  __shared__ float sums[2][kMostSums][kLineStrip];  // of the warps; of turns by turns
  const int thread = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_row = warp % kWarps;
  const int group = kWarps == 1 ? warp : 0;  // warps that do not share
  const int groups = kWarps == 1 ? static_cast<int>(blockDim.x) / 32 : 1;
  const int sharer = kWarps == 1 ? 0 : warp / kWarps;
  const int item_step = static_cast<int>(gridDim.x) * groups;
  const int64_t row_step = kWarps * g.matrix_column;
  LineTurn turn(g, static_cast<int>(blockIdx.x) * groups + group);
  Stream stream;
  stream.Begin(g, turn.item, turn.first + sharer, first_row);
  stream.Prefetch(g);
  WaitForKernelBefore();
  LetKernelAfterStart();
  stream.LoadX(g);
  stream.LoadAll(row_step);
  stream.Advance();
  float total = 0;
  int parity = 0;
  while (turn.item < g.line.items) {
    const int chunk = turn.first + sharer;
    float sum[Stream::kLanes] = {};
    int left = chunk < g.chunks ? ChunkCount(g, chunk) : 0;
#pragma unroll 1
    do {
      left -= Stream::kStep;
      if (left <= 0) {
        const LineTurn next = turn.Next(g, item_step);
        stream.Begin(g, next.item, next.first + sharer, first_row);
      }
      stream.LoadX(g);
      stream.AddAndLoad(row_step, sum);
      stream.Advance();
    } while (left > 0);
    AddHalves<Stream::kLanes>(sum);
    if constexpr (kWarps > 1) {
      sums[parity][warp][thread] = sum[0];
      __syncthreads();
    }
    if (kWarps == 1 || warp == 0) {
      const LineItem at(g, turn.item);
      const int64_t j = int64_t{at.strip} * kLineStrip + thread;
      const int together = kWarps == 1 ? 1 : min(g.line.share, g.chunks - turn.first);
      float of_chunk = sum[0];
      for (int c = 0; c < together; ++c) {
        if constexpr (kWarps > 1) {
          float of_warps[kWarps];
#pragma unroll
          for (int w = 0; w < kWarps; ++w) of_warps[w] = sums[parity][c * kWarps + w][thread];
          AddHalves<kWarps>(of_warps);
          of_chunk = of_warps[0];
        }
        total = turn.first + c == 0 ? of_chunk : __fadd_rn(total, of_chunk);
      }
      if (j < g.length) {
        if (g.line.parts > 1) {
          StorePart(g, at, j, of_chunk);
        } else if (turn.Ends(g)) {
          StoreLine(g, at.batch, j, total);
        }
      }
    }
    parity ^= 1;
    turn = turn.Next(g, item_step);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_COLUMNS_CUH_
