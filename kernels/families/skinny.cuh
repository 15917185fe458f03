// The kernel of the skinny family: what a block does, and where its sums go. skinny.cu draws the
// picture.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/skinny_gemm.h"
#include "kernels/families/skinny_stream.cuh"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// Adds up over the lanes, in halves: lane i and i + kHalf, then the next power of two. kUnit
// threads are a lane. The values are shared out on the way: a thread ends up with those from the
// index on that is returned.
template <int kHalf, int kUnit, int kWidth, int kValues>
__device__ __forceinline__ int AddLanes(int lane, float (&values)[kValues]) {
  if constexpr (kHalf == 0) {
    return 0;
  } else {
    static_assert(kWidth % 2 == 0);
    constexpr int kLeft = kWidth / 2;
    const bool upper = (lane & kHalf) != 0;
#pragma unroll
    for (int i = 0; i < kLeft; ++i) {
      const float sent = upper ? values[i] : values[i + kLeft];
      const float kept = upper ? values[i + kLeft] : values[i];
      values[i] = __fadd_rn(kept, __shfl_xor_sync(0xffffffff, sent, kUnit * kHalf));
    }
    return (upper ? kLeft : 0) + AddLanes<kHalf / 2, kUnit, kLeft>(lane, values);
  }
}

// The block's place in the launch: whole strips first, then the chunks of the others.
struct SkinnyPlace {
  int64_t strip;
  int first_chunk;
  int chunk_step;
  int chunks;  // of the strip
  int64_t chunk_length;

  __device__ __forceinline__ explicit SkinnyPlace(const SkinnyGemm& g) {
    const auto block = static_cast<int>(blockIdx.x) - static_cast<int>(g.whole_strips);
    if (block < 0) {
      *this = {int64_t{blockIdx.x}, 0, 1, 1, g.p.k};
    } else {
      *this = {g.whole_strips + block / g.chunk_blocks, block % g.chunk_blocks, g.chunk_blocks,
               g.chunks, g.chunk_length};
    }
  }

 private:
  __device__ __forceinline__ SkinnyPlace(int64_t the_strip, int first, int step, int count,
                                         int64_t length)
      : strip(the_strip),
        first_chunk(first),
        chunk_step(step),
        chunks(count),
        chunk_length(length) {}
};

// kWidth results of a row, side by side.
template <int kWidth>
struct SkinnyTotals {
  float of[kWidth];

  __device__ __forceinline__ void Load(uint32_t from) {
    if constexpr (kWidth == 4) {
      const float4 v = LoadShared4(from);
      of[0] = v.x;
      of[1] = v.y;
      of[2] = v.z;
      of[3] = v.w;
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) of[i] = LoadShared(from + 4 * i);
    }
  }
  __device__ __forceinline__ void Add(const SkinnyTotals& more) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) of[i] = __fadd_rn(of[i], more.of[i]);
  }
};

template <typename Shape, bool kXAlong, bool kMatrixAlong>
__device__ __forceinline__ void SkinnyMultiply(const SkinnyGemm& g, const CUtensorMap* map_x,
                                               const CUtensorMap* map_matrix) {
  using Stream = SkinnyStream<Shape, kXAlong, kMatrixAlong>;
  using Matrix = typename Stream::Matrix;
  using X = typename Stream::X;
  constexpr int kRows = Shape::kRows;
  constexpr int kValues = Stream::kValues;
  constexpr int kKept = kValues / Stream::kLanes;
  constexpr int kColumns = Shape::kThreadColumns;
  constexpr int kResults = kRows * Shape::kStrip;
  // The warps' sums in the ring once it has run dry, such that threads that write at once meet few
  // others in a bank.
  constexpr bool kByFours = Matrix::kFours && kKept % 4 == 0;
  constexpr int kPitch = Shape::kStrip + (kByFours ? 0 : X::kFours ? 2 : 8);
  constexpr int kWarpBytes = 4 * kRows * kPitch;
  static_assert(kLaneWarps * kWarpBytes <= Shape::kFewerStages * Shape::kStageBytes);
  // What a thread adds up at once.
  constexpr int kWidth = kResults < 4 * kSkinnyThreads ? 1 : kPitch % 4 == 0 ? 4 : 2;
  using Totals = SkinnyTotals<kWidth>;
  extern __shared__ __align__(1024) float ring[];
  const uint32_t shared = SharedAddress(ring);
  const uint32_t totals =
      shared + (g.fewer_stages ? Shape::kFewerStages : Shape::kStages) * Shape::kStageBytes;
  const int thread = static_cast<int>(threadIdx.x);
  const SkinnyPlace place(g);
  const int64_t j0 = place.strip * Shape::kStrip;
  const auto inside = static_cast<int>(min(g.length - j0, int64_t{Shape::kStrip}));
  const bool partial = g.partial != nullptr && place.chunks > 1;
  // The blocks of a cluster, one a chunk, share out its results: a block gets the sums of `columns`
  // of them from all. Totals are [chunk][row][column], where rows are neighbours in D such that
  // those lie in different banks.
  const int blocks = ClusterSize();
  const int columns = (Shape::kStrip + blocks - 1) / blocks;
  const auto total_at = [&](int chunk, int r, int j) {
    return totals + 4 * ((chunk * kRows + r) * (columns + (g.x_is_a ? 0 : 1)) + j);
  };
  if (blocks > 1) ClusterArrive();
  if (g.alone || g.partial != nullptr) LetKernelAfterStart();
  Stream stream(g, map_x, map_matrix, shared);
  // What packs x has waited itself.
  if (g.alone && !g.x_is_packed) WaitForKernelBefore();
  // Where x has the rows of D, or sums go into the workspace, neighbours along j are neighbours in
  // memory. Elsewhere those along the rows are, so results are sorted through shared memory.
  const bool direct = blocks == 1 && (partial || g.x_is_a);
  const auto store_direct = [&](int64_t batch, int r, int j, const Totals& result) {
    if (r >= g.rows || j >= inside) return;
    if (!partial) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (j + i < inside) StoreElement(g.p, batch, r, j0 + j + i, result.of[i]);
      }
      return;
    }
    float* to = g.partial + ((place.first_chunk * g.p.batch_count + batch) * g.rows + r) * g.pitch +
                (j0 - g.whole_strips * Shape::kStrip) + j;
    if constexpr (kWidth == 4) {
      *reinterpret_cast<float4*>(to) =
          make_float4(result.of[0], result.of[1], result.of[2], result.of[3]);
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) to[i] = result.of[i];
    }
  };
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    for (int chunk = place.first_chunk; chunk < place.chunks; chunk += place.chunk_step) {
      const int64_t begin = chunk * place.chunk_length;
      float sum[kValues];
      stream.Sum(batch, begin, static_cast<int>(min(g.p.k - begin, place.chunk_length)), j0, sum);
      const int first =
          AddLanes<Stream::kLanes / 2, Stream::kLaneUnit, kValues>(Stream::Lane(), sum);
      __syncthreads();  // the ring has run dry
      const uint32_t mine = shared + thread / 32 * kWarpBytes;
#pragma unroll
      for (int i = 0; i < kKept; i += kByFours ? 4 : 1) {
        const int r = X::LineOf((first + i) / kColumns, Stream::Team());
        const int j = Matrix::LineOf((first + i) % kColumns, Stream::Group());
        const uint32_t to = mine + 4 * (r * kPitch + j);
        if constexpr (kByFours) {
          StoreShared4(to, make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]));
        } else {
          StoreShared(to, sum[i]);
        }
      }
      __syncthreads();
      // All have begun, or have done with the sums of the matrix before.
      if (blocks > 1) ClusterWait();
      const bool last = chunk + place.chunk_step >= place.chunks;
      for (int e = kWidth * thread; e < kResults; e += kWidth * kSkinnyThreads) {
        const int r = e / Shape::kStrip;
        const int j = e % Shape::kStrip;
        const uint32_t from = shared + 4 * (r * kPitch + j);
        Totals warps[kLaneWarps];
#pragma unroll
        for (int w = 0; w < kLaneWarps; ++w) warps[w].Load(from + w * kWarpBytes);
        Totals total = warps[0];
#pragma unroll
        for (int w = 1; w < kLaneWarps; ++w) total.Add(warps[w]);
        if (blocks > 1) {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) {
            StoreToBlock(total_at(chunk, r, j % columns + i), j / columns, total.of[i]);
          }
          continue;
        }
        if (chunk != place.first_chunk) {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) {
            total.of[i] = __fadd_rn(LoadShared(total_at(0, r, j + i)), total.of[i]);
          }
        }
        if (last && direct) {
          store_direct(batch, r, j, total);
        } else {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) StoreShared(total_at(0, r, j + i), total.of[i]);
        }
      }
      if constexpr (Stream::kBoxes) OrderBoxesBehindAccesses();
      __syncthreads();  // the ring may be filled
    }
    if (direct) continue;
    if (blocks > 1) {
      ClusterArrive();
      ClusterWait();
    }
    const int first_column = blocks > 1 ? ClusterRank() * columns : 0;
    if (g.x_is_a) {
      for (int e = kWidth * thread; e < kRows * columns; e += kWidth * kSkinnyThreads) {
        const int r = e / columns;
        const int j = e % columns;
        Totals result;
        result.Load(total_at(0, r, j));
        for (int c = 1; c < blocks; ++c) {
          Totals more;
          more.Load(total_at(c, r, j));
          result.Add(more);
        }
        store_direct(batch, r, first_column + j, result);
      }
    } else {
      for (int e = thread; e < kRows * columns; e += kSkinnyThreads) {
        const int r = e % kRows;
        const int j = e / kRows;
        float result = LoadShared(total_at(0, r, j));
        for (int c = 1; c < blocks; ++c) result = __fadd_rn(result, LoadShared(total_at(c, r, j)));
        if (r >= g.rows || first_column + j >= inside) continue;
        StoreElement(g.p, batch, j0 + first_column + j, r, result);
      }
    }
    if (blocks > 1) {
      ClusterArrive();
    } else {
      __syncthreads();  // totals may be written
    }
  }
  if (blocks > 1) ClusterWait();
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
