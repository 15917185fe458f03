// The device code of the skinny family; skinny.cu draws the picture.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_CUH_

#include "kernels/families/skinny_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// A warp has two groups of four of j, and neighbours have the same lane of k: 16 bytes of x for two
// neighbours take half as long as for strangers.
__device__ __forceinline__ int GroupOf(int thread) { return thread / 32 * 2 + thread % 2; }
__device__ __forceinline__ int LaneOf(int thread) { return thread / 2 % kLanes; }

// Where 16 bytes of the matrix lie in a stage, in units of 16 bytes, 16 to a line: such that the
// threads of a quarter warp, which read of two groups of four of j and four groups of four of k,
// never meet in a bank.
template <bool kAlong>
__device__ __forceinline__ int UnitAt(int line, int unit) {
  const int group = line / 4;
  return line * 16 + (unit ^ (kAlong ? group % 2 * 4 : group % 4 * 2));
}

// Copies the matrix's part of a stage: `lines` lines of `width`, zeros beyond. A line is one of k
// and a unit four of j, or, along k, a line one of j and a unit four of k.
template <bool kAlong, bool kWhole>
__device__ __forceinline__ void CopyLines(const SkinnyGemm& g, const float* from,
                                          int64_t line_stride, int lines, int width, uint32_t to) {
  const int thread = static_cast<int>(threadIdx.x);
  if (g.matrix_16) {
    const int unit = thread % 16;
    const int elements = kWhole ? 4 : max(0, min(4, width - 4 * unit));
    if (!kWhole && elements == 0) lines = 0;
    from += thread / 16 * line_stride + 4 * unit;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int line = thread / 16 + 16 * i;
      const bool any = kWhole || line < lines;
      CopyAsync16(to + UnitAt<kAlong>(line, unit) * 16, any ? from : g.matrix,
                  any ? 4 * elements : 0);
      from += 16 * line_stride;
    }
  } else {
    const int element = thread % 64;
    if (!kWhole && element >= width) lines = 0;
    from += thread / 64 * line_stride + element;
#pragma unroll kWhole ? 16 : 1
    for (int i = 0; i < 16; ++i) {
      const int line = thread / 64 + 4 * i;
      const bool any = kWhole || line < lines;
      CopyAsync4(to + UnitAt<kAlong>(line, element / 4) * 16 + element % 4 * 4,
                 any ? from : g.matrix, any ? 4 : 0);
      from += 4 * line_stride;
    }
  }
}

// The same for the stage that begins at product `l0` of `count`.
template <bool kAlong>
__device__ __forceinline__ void CopyMatrix(const SkinnyGemm& g, const float* matrix, int inside,
                                           int l0, int count, uint32_t to) {
  const int64_t line_stride = kAlong ? g.matrix_row : g.matrix_column;
  const int depth = min(kSkinnyDepth, count - l0);
  const float* from =
      matrix + (kAlong ? static_cast<int64_t>(l0) : static_cast<int64_t>(l0) * g.matrix_column);
  if (depth == kSkinnyDepth && inside == kSkinnyStrip) {
    CopyLines<kAlong, true>(g, from, line_stride, 64, 64, to);
  } else {
    CopyLines<kAlong, false>(g, from, line_stride, kAlong ? inside : depth, kAlong ? depth : inside,
                             to);
  }
}

// Copies x's part of a stage: [row][k], zeros below its last row and behind its last k.
template <int kRows>
__device__ __forceinline__ void CopyX(const SkinnyGemm& g, const float* x, int l0, int count,
                                      uint32_t to) {
  const int thread = static_cast<int>(threadIdx.x);
  x += l0 * g.x_column;
  count -= l0;
  if (g.x_16) {
#pragma unroll
    for (int e = thread; e < kRows * 16; e += kSkinnyThreads) {
      const int r = e / 16;
      const int l = e % 16 * 4;
      const int elements = r < g.rows ? max(0, min(4, count - l)) : 0;
      CopyAsync16(to + (r * kSkinnyXPitch + l) * 4, elements > 0 ? x + r * g.x_row + l : g.x,
                  4 * elements);
    }
    return;
  }
  // Neighbours in memory to neighbours in a warp; up to eight rows, so that a warp's stores spread
  // over the banks. Not all at once, which would take registers from the sums.
  constexpr int kTogether = kRows < 8 ? kRows : 8;
#pragma unroll 1
  for (int e = thread; e < kRows * kSkinnyDepth; e += kSkinnyThreads) {
    const bool deep = g.x_column == 1;
    const int r =
        deep ? e / kSkinnyDepth : e % kTogether + e / (kTogether * kSkinnyDepth) * kTogether;
    const int l = deep ? e % kSkinnyDepth : e / kTogether % kSkinnyDepth;
    const bool inside = r < g.rows && l < count;
    CopyAsync4(to + (r * kSkinnyXPitch + l) * 4, inside ? x + r * g.x_row + l * g.x_column : g.x,
               inside ? 4 : 0);
  }
}

// This thread's 4 x 4 of a stage: [k][j], or, along k, [j][k].
template <bool kAlong>
__device__ __forceinline__ void LoadMatrix(const float* stage, int group, int lane,
                                           float (&b)[4][4]) {
  const auto* units = reinterpret_cast<const float4*>(stage);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 v =
        units[kAlong ? UnitAt<true>(group * 4 + i, lane) : UnitAt<false>(lane * 4 + i, group)];
    b[i][0] = v.x;
    b[i][1] = v.y;
    b[i][2] = v.z;
    b[i][3] = v.w;
  }
}

// sum[r][j] += its products with every row of x.
template <int kRows, bool kAlong>
__device__ __forceinline__ void Multiply(const float* stage, int lane, const float (&b)[4][4],
                                         float (&sum)[kRows * 4]) {
  const float* x = stage + kSkinnyStrip * kSkinnyDepth + lane * kLaneGranule;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float4 v = *reinterpret_cast<const float4*>(x + r * kSkinnyXPitch);
    const float a[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[r * 4 + e] = MultiplyAdd(a[i], kAlong ? b[e][i] : b[i][e], sum[r * 4 + e]);
      }
    }
  }
}

// The sums of one chunk, by lane.
template <int kRows, bool kAlong>
__device__ __forceinline__ void MultiplyChunk(const SkinnyGemm& g, const float* x,
                                              const float* matrix, int inside, int count,
                                              float* ring, float (&sum)[kRows * 4]) {
  constexpr int kStages = SkinnyShape<kRows>::kStages;
  constexpr int kStageFloats = SkinnyShape<kRows>::kStageFloats;
  const int group = GroupOf(static_cast<int>(threadIdx.x));
  const int lane = LaneOf(static_cast<int>(threadIdx.x));
  const int steps = (count + kSkinnyDepth - 1) / kSkinnyDepth;
  const auto fetch = [&](int step, int slot) {
    if (step < steps) {
      const uint32_t to = SharedAddress(ring + slot * kStageFloats);
      CopyMatrix<kAlong>(g, matrix, inside, step * kSkinnyDepth, count, to);
      CopyX<kRows>(g, x, step * kSkinnyDepth, count, to + kSkinnyStrip * kSkinnyDepth * 4);
    }
    CommitCopies();
  };
#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) fetch(s, s);
#pragma unroll
  for (float& value : sum) value = 0;
  int slot = 0;
  int free_slot = kStages - 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    WaitForCopyGroups<kStages - 2>();
    // The stage is there for all, and all have left the one before, which is filled next.
    __syncthreads();
    const float* stage = ring + slot * kStageFloats;
    float b[4][4];
    LoadMatrix<kAlong>(stage, group, lane, b);  // before the copies, behind which it would queue
    fetch(step + kStages - 1, free_slot);
    Multiply<kRows, kAlong>(stage, lane, b, sum);
    free_slot = slot;
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
  __syncthreads();
}

// Adds up over the lanes of a group, in halves: lane i and i + kHalf, then the next power of two.
// The values are shared out on the way: lanes end up with max(1, kValues / 16) of them, which begin
// at the index that is returned; of several lanes with the same one, all but the first are given
// one past the last.
template <int kHalf, int kWidth, int kValues>
__device__ __forceinline__ int AddLanes(int lane, float (&values)[kValues]) {
  if constexpr (kHalf == 0) {
    return 0;
  } else {
    const bool upper = (lane & kHalf) != 0;
    if constexpr (kWidth > 1) {
      constexpr int kLeft = kWidth / 2;
#pragma unroll
      for (int i = 0; i < kLeft; ++i) {
        const float sent = upper ? values[i] : values[i + kLeft];
        const float kept = upper ? values[i + kLeft] : values[i];
        values[i] = __fadd_rn(kept, __shfl_xor_sync(0xffffffff, sent, 2 * kHalf));
      }
      return (upper ? kLeft : 0) + AddLanes<kHalf / 2, kLeft>(lane, values);
    } else {
      values[0] = __fadd_rn(values[0], __shfl_xor_sync(0xffffffff, values[0], 2 * kHalf));
      return (upper ? kValues : 0) + AddLanes<kHalf / 2, kWidth>(lane, values);
    }
  }
}

template <int kRows, bool kAlong>
__device__ __forceinline__ void SkinnyMultiply(const SkinnyGemm& g) {
  constexpr int kValues = kRows * 4;
  constexpr int kKept = kValues < kLanes ? 1 : kValues / kLanes;
  constexpr int kResults = kRows * kSkinnyStrip;
  extern __shared__ __align__(128) float ring[];
  float* sums = ring + SkinnyShape<kRows>::kStages * SkinnyShape<kRows>::kStageFloats;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = GroupOf(thread);
  const int64_t j0 = int64_t{blockIdx.x} * kSkinnyStrip;
  const auto inside = static_cast<int>(min(g.length - j0, int64_t{kSkinnyStrip}));
  // The blocks of a cluster, one a chunk, share out its results: a block gets the sums of `share`
  // of them from all, [chunk][result].
  const int blocks = ClusterSize();
  const int share = kResults / blocks;
  const int my_chunk = blocks > 1 ? ClusterRank() : 0;
  ClusterArrive();
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    float total[kKept] = {};
    int first = kValues;
    for (int chunk = static_cast<int>(blockIdx.y); chunk < g.chunks;
         chunk += static_cast<int>(gridDim.y)) {
      const int64_t begin = chunk * g.chunk_length;
      const auto count = static_cast<int>(min(g.p.k - begin, g.chunk_length));
      float sum[kValues];
      MultiplyChunk<kRows, kAlong>(
          g, g.x + batch * g.x_batch + begin * g.x_column,
          g.matrix + batch * g.matrix_batch + j0 * g.matrix_row + begin * g.matrix_column, inside,
          count, ring, sum);
      first = AddLanes<kLanes / 2, kValues>(LaneOf(thread), sum);
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        total[i] = chunk == static_cast<int>(blockIdx.y) ? sum[i] : __fadd_rn(total[i], sum[i]);
      }
    }
    ClusterWait();  // all have begun, or have done with the sums of the matrix before
    if (first < kValues) {
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        const int r = (first + i) / 4;
        const int j = group * 4 + (first + i) % 4;
        // Neighbours in D are neighbours here.
        const int e = g.x_is_a ? r * kSkinnyStrip + j : j * kRows + r;
        StoreToBlock(SharedAddress(sums + my_chunk * share + e % share), e / share, total[i]);
      }
    }
    ClusterArrive();
    ClusterWait();
    const int parts = blocks > 1 ? g.chunks : 1;
    for (int s = thread; s < share; s += kSkinnyThreads) {
      const int e = my_chunk * share + s;
      const int r = g.x_is_a ? e / kSkinnyStrip : e % kRows;
      const int j = g.x_is_a ? e % kSkinnyStrip : e / kRows;
      if (r >= g.rows || j >= inside) continue;
      float result = sums[s];
      for (int c = 1; c < parts; ++c) result = __fadd_rn(result, sums[c * share + s]);
      const int64_t row = g.x_is_a ? r : j0 + j;
      const int64_t column = g.x_is_a ? j0 + j : r;
      if (g.partial != nullptr) {
        g.partial[((blockIdx.y * g.p.batch_count + batch) * g.p.m + row) * g.pitch + column] =
            result;
      } else {
        StoreElement(g.p, batch, row, column, result);
      }
    }
    ClusterArrive();
  }
  ClusterWait();
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
