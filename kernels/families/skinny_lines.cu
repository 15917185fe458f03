// Where x is one line, every element of the matrix is used once, so nothing has to lie in shared
// memory: threads load from where it is, of any alignment, and as much is under way as registers
// hold. The order of the sum is that of the family (sum_order.h), whoever computes it: here its 8
// warps and their 4 lanes are threads.
//
//   dots   k contiguous in the matrix, and single results. A warp has a row, or a chunk of it: its
//          threads are the 4 lanes of the order's 8 warps, and of every 256 products each has twice
//          four in a row. These are loaded 16 bytes at a time from the boundary before them on, and
//          what lies behind their end comes from the neighbour. Chunks of a row meet in their
//          block if they are few, else in a second pass.
//   line   k not contiguous, rows that begin anywhere. A pair of blocks, which meet in a cluster,
//          has a strip of columns as wide as lets all pairs run at once; of all 256 products in
//          turn each block has 128. The wider, the fewer sectors of 32 bytes are read twice.

#include "kernels/cuda_status.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/skinny_lines.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/prefetch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {
namespace {

constexpr int kLanes = LanesOf(1);
constexpr int kHalves = kLaneBlock / kLaneGranule / kLanes;  // of a block of k: granules of a lane
constexpr int kHalf = kLanes * kLaneGranule;

constexpr int kDotRounds = 2;  // under way at once
constexpr int kDotStep = kDotRounds * kLaneRound;
constexpr int kMostDotThreads = 1024;
constexpr int kTotalThreads = 256;
static_assert(kLaneWarps * kLanes == 32 && kHalves == 2);

__device__ __forceinline__ void LoadFour(const float* from, float (&four)[kLaneGranule]) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  four[0] = v.x;
  four[1] = v.y;
  four[2] = v.z;
  four[3] = v.w;
}

// Elements `at` to at + 3 of an aligned line that goes on to `end`; without kWhole, which says that
// it does, zeros unless all are there.
template <bool kWhole>
__device__ __forceinline__ void LoadWhole(const float* line, int at, int end,
                                          float (&four)[kLaneGranule]) {
  if (kWhole || at + kLaneGranule <= end) {
    LoadFour(line + at, four);
  } else {
#pragma unroll
    for (int e = 0; e < kLaneGranule; ++e) four[e] = 0;
  }
}

// The last elements of such a line, fewer than four, so that nothing behind them is read.
struct LineEnd {
  int at;
  float of[kLaneGranule - 1];

  __device__ __forceinline__ LineEnd(const float* line, int end) : at(end & ~(kLaneGranule - 1)) {
#pragma unroll
    for (int e = 0; e < kLaneGranule - 1; ++e) of[e] = at + e < end ? line[at + e] : 0.0F;
  }
  __device__ __forceinline__ void Put(int where, float (&four)[kLaneGranule]) const {
#pragma unroll
    for (int e = 0; e < kLaneGranule - 1; ++e) four[e] = where == at ? of[e] : four[e];
  }
};

// Adds the products of kDotRounds rounds to the sum of a thread's lane. The matrix's line begins
// `shift` elements behind `aligned`. Without kWhole, products from `left` on are 0 * 0, and blocks
// of k that have none are left out.
template <bool kWhole>
__device__ __forceinline__ void AddDots(const float* x, bool x_16, const float* aligned, int shift,
                                        int left, float* sum) {
  const int thread = static_cast<int>(threadIdx.x) % 32;
  const int block = thread / kLanes * kLaneBlock;
  const int place = block + thread % kLanes * kLaneGranule;
  const bool first_lane = thread % kLanes == 0;
  const auto at = [place](int i) { return place + i / kHalves * kLaneRound + i % kHalves * kHalf; };
  constexpr int kCount = kDotRounds * kHalves;
  float of_matrix[kCount][kLaneGranule];
  float behind[kLaneGranule] = {};  // all rounds, of thread 0
  float of_x[kCount][kLaneGranule];
#pragma unroll
  for (int i = 0; i < kCount; ++i) LoadWhole<kWhole>(aligned, at(i), left + shift, of_matrix[i]);
  if (thread == 0 && shift != 0) LoadWhole<kWhole>(aligned, kDotStep, left + shift, behind);
  if (kWhole || x_16) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) LoadWhole<kWhole>(x, at(i), left, of_x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int e = 0; e < kLaneGranule; ++e) of_x[i][e] = at(i) + e < left ? x[at(i) + e] : 0.0F;
    }
  }
  if constexpr (!kWhole) {
    const LineEnd end(aligned, left + shift);
#pragma unroll
    for (int i = 0; i < kCount; ++i) end.Put(at(i), of_matrix[i]);
    if (thread == 0) end.Put(kDotStep, behind);
    if (x_16) {
      const LineEnd end_x(x, left);
#pragma unroll
      for (int i = 0; i < kCount; ++i) end_x.Put(at(i), of_x[i]);
    }
  }
  // Who has the four elements behind those of a thread's first half, and of its second: the
  // neighbour, whose first lane sends its other half, of thread 0 the next round's.
  const int behind_first = thread % kLanes < kLanes - 1 ? thread + 1 : thread + 1 - kLanes;
  const int behind_second = (thread + 1) % 32;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    float eight[2 * kLaneGranule];
#pragma unroll
    for (int e = 0; e < kLaneGranule; ++e) {
      eight[e] = of_matrix[i][e];
      if (e == kLaneGranule - 1) break;
      float sent = first_lane ? of_matrix[i ^ 1][e] : of_matrix[i][e];
      if (i % kHalves == 1 && thread == 0) {
        sent = i + 1 < kCount ? of_matrix[(i + 1) % kCount][e] : behind[e];
      }
      eight[kLaneGranule + e] =
          __shfl_sync(0xffffffff, sent, i % kHalves == 0 ? behind_first : behind_second);
    }
#pragma unroll
    for (int e = 0; e < 2 * kLaneGranule - 2; ++e) {
      eight[e] = shift % 2 != 0 ? eight[e + 1] : eight[e];
    }
#pragma unroll
    for (int e = 0; e < kLaneGranule; ++e) {
      const float added = MultiplyAdd(of_x[i][e], shift >= 2 ? eight[e + 2] : eight[e], *sum);
      *sum = kWhole || i / kHalves * kLaneRound + block < left ? added : *sum;
    }
  }
}

// The sum of a thread's lane, whatever the strides.
__device__ __forceinline__ float AddStrided(const SkinnyGemm& g, const float* x,
                                            const float* matrix, int count) {
  const int thread = static_cast<int>(threadIdx.x) % 32;
  const int block = thread / kLanes * kLaneBlock;
  float sum = 0;
  for (int done = block; done < count; done += kLaneRound) {
#pragma unroll
    for (int i = 0; i < kHalves * kLaneGranule; ++i) {
      const int at =
          done + thread % kLanes * kLaneGranule + i / kLaneGranule * kHalf + i % kLaneGranule;
      const bool any = at < count;
      sum = MultiplyAdd(any ? x[at * g.x_column] : 0.0F, any ? matrix[at * g.matrix_column] : 0.0F,
                        sum);
    }
  }
  return sum;
}

// The same of lines with k contiguous. That of the matrix goes on for `row_left` elements.
__device__ __forceinline__ float AddContiguous(const float* x, bool x_16, const float* matrix,
                                               int count, int64_t row_left) {
  const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(matrix) / 4 % 4);
  matrix -= shift;
  // Of a shifted line 16 bytes more are read, all of which have to be there.
  const int64_t there = min(row_left - (shift == 0 ? 0 : kLaneGranule - shift), int64_t{count});
  const int whole = x_16 ? static_cast<int>(there) / kDotStep : 0;
  int left = count - whole * kDotStep;
  float sum = 0;
#pragma unroll 1
  for (int i = whole; i > 0; --i, x += kDotStep, matrix += kDotStep) {
    AddDots<true>(x, true, matrix, shift, 0, &sum);
  }
#pragma unroll 1
  for (; left > 0; x += kDotStep, matrix += kDotStep, left -= kDotStep) {
    AddDots<false>(x, x_16, matrix, shift, left, &sum);
  }
  return sum;
}

// The sum of a chunk of `count` products, in every thread of the warp.
__device__ __forceinline__ float DotOfChunk(const SkinnyGemm& g, const float* x,
                                            const float* matrix, int count, int64_t row_left) {
  float sum = g.matrix_column == 1 && g.x_column == 1
                  ? AddContiguous(x, g.x_16, matrix, count, row_left)
                  : AddStrided(g, x, matrix, count);
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffff, sum, half));
  }
  float total = __shfl_sync(0xffffffff, sum, 0);
#pragma unroll
  for (int w = 1; w < kLaneWarps; ++w) {
    total = __fadd_rn(total, __shfl_sync(0xffffffff, sum, w * kLanes));
  }
  return total;
}

// Chunks of a row, by a warp.
__device__ __forceinline__ float AddChunksOfRow(const float* sums, int chunks) {
  float total = sums[0];
#pragma unroll 8
  for (int c = 1; c < chunks; ++c) total = __fadd_rn(total, sums[c]);
  return total;
}

// Of a single result, in lanes.
__device__ __forceinline__ float AddChunksOfOne(const float* sums, int chunks) {
  const int thread = static_cast<int>(threadIdx.x) % kDeepChunkLanes;
  float lane = thread < chunks ? sums[thread] : 0.0F;
#pragma unroll 4
  for (int c = thread + kDeepChunkLanes; c < chunks; c += kDeepChunkLanes) {
    lane = __fadd_rn(lane, sums[c]);
  }
  float total = __shfl_sync(0xffffffff, lane, 0);
#pragma unroll
  for (int i = 1; i < kDeepChunkLanes; ++i) {
    const float next = __shfl_sync(0xffffffff, lane, i);
    total = i < chunks ? __fadd_rn(total, next) : total;
  }
  return total;
}

// A block has rows, a row has warps, which share its chunks.
struct DotPlace {
  int row;   // of the block
  int warp;  // of the row
  int64_t j;
  int first_chunk;

  // Looks anew where this thread is, so that nothing of it takes registers from the sums.
  __device__ __forceinline__ explicit DotPlace(const SkinnyGemm& g) {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    row = thread / 32 / g.dots.warps;
    warp = thread / 32 % g.dots.warps;
    j = int64_t{blockIdx.x} * g.dots.rows + row;
    first_chunk = static_cast<int>(blockIdx.y) * g.dots.warps + warp;
  }
};

__device__ __forceinline__ void StoreDot(const SkinnyGemm& g, int64_t batch, float total) {
  const DotPlace place(g);
  if (threadIdx.x % 32 != 0 || place.j >= g.length) return;
  StoreElement(g.p, batch, g.x_is_a ? 0 : place.j, g.x_is_a ? place.j : 0, total);
}

__global__ void __launch_bounds__(kMostDotThreads, 1)
    SkinnyDots(const __grid_constant__ SkinnyGemm g) {
  __shared__ float sums[kMostSingleChunks];  // [row][chunk]
  // What is asked for first comes into the L2 cache while the kernel before ends: of the matrix,
  // and of x where no other row asks for the same.
  if (g.matrix_column == 1 && g.x_column == 1) {
    constexpr int kLine = 32;  // of the cache
    const DotPlace place(g);
    const int thread = static_cast<int>(threadIdx.x) % 32;
    const int64_t l = place.first_chunk * g.chunk_length + thread % 16 * kLine;
    static_assert(16 * kLine == kDotStep);
    const bool any = l < g.p.k && place.j < g.length;
    if (any && thread < 16) {
      PrefetchToL2(g.matrix + blockIdx.z * g.matrix_batch + place.j * g.matrix_row + l);
    } else if (any && g.length == 1) {
      PrefetchToL2(g.x + blockIdx.z * g.x_batch + l);
    }
  }
  WaitForKernelBefore();
  LetKernelAfterStart();
  for (unsigned plane = blockIdx.z; plane < g.p.batch_count; plane += gridDim.z) {
    for (int chunk = DotPlace(g).first_chunk; chunk < g.chunks;
         chunk += static_cast<int>(gridDim.y) * g.dots.warps) {
      const int64_t begin = chunk * g.chunk_length;
      const float sum =
          DotOfChunk(g, g.x + plane * g.x_batch + begin * g.x_column,
                     g.matrix + plane * g.matrix_batch + begin * g.matrix_column +
                         min(DotPlace(g).j, g.length - 1) * g.matrix_row,
                     static_cast<int>(min(g.p.k - begin, g.chunk_length)), g.p.k - begin);
      const DotPlace place(g);
      if (g.chunks == 1) {
        StoreDot(g, plane, sum);
      } else if (threadIdx.x % 32 == 0 && g.partial == nullptr) {
        sums[place.row * g.chunks + chunk] = sum;
      } else if (threadIdx.x % 32 == 0 && place.j < g.length) {
        g.partial[(chunk * g.p.batch_count + plane) * g.pitch + place.j] = sum;
      }
    }
    if (g.chunks == 1 || g.partial != nullptr) continue;
    __syncthreads();
    if (const DotPlace place(g); place.warp == 0) {
      StoreDot(g, plane,
               g.length == 1 ? AddChunksOfOne(sums, g.chunks)
                             : AddChunksOfRow(sums + place.row * g.chunks, g.chunks));
    }
    __syncthreads();  // sums may be written
  }
}

// The second pass of single results, a block each.
__global__ void __launch_bounds__(kTotalThreads)
    SkinnyDotTotal(const __grid_constant__ SkinnyGemm g) {
  __shared__ float sums[kMostSingleChunks];
  LetKernelAfterStart();
  WaitForKernelBefore();
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    float part[kMostSingleChunks / kTotalThreads];  // all under way at once
#pragma unroll
    for (int i = 0; i < kMostSingleChunks / kTotalThreads; ++i) {
      const int chunk = i * kTotalThreads + static_cast<int>(threadIdx.x);
      part[i] = chunk < g.chunks ? g.partial[(chunk * g.p.batch_count + batch) * g.pitch] : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kMostSingleChunks / kTotalThreads; ++i) {
      sums[i * kTotalThreads + static_cast<int>(threadIdx.x)] = part[i];
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      const float total = AddChunksOfOne(sums, g.chunks);
      if (threadIdx.x == 0) StoreElement(g.p, batch, 0, 0, total);
    }
    __syncthreads();  // sums may be written
  }
}

// Of a strip: threads are its columns by 4 warps by 2 of a warp's pairs of lanes.
constexpr int kPairWarps = kLaneWarps / kLinePair;
constexpr int kLanePairs = kLanes / 2;
constexpr int kLineThreads = kMostLineColumns * kPairWarps * kLanePairs;
inline int LineThreads(int columns) {
  return static_cast<int>(TilesOf(columns * kPairWarps * kLanePairs, 32)) * 32;
}

// Adds the products of `kRounds` rounds to the sums of a thread's two lanes. Without kWhole, those
// from `left` on are 0 * 0; with it x is aligned.
template <int kRounds, bool kWhole>
__device__ __forceinline__ void AddLineRounds(const SkinnyGemm& g, const float* x,
                                              const float* matrix, int left, float (&sum)[2]) {
  constexpr int kCount = kRounds * kHalves * 2;  // granules, each second of the other lane
  const auto place = [](int i) {
    return i / (2 * kHalves) * kLaneRound + i / 2 % kHalves * kHalf + i % 2 * kLaneGranule;
  };
  float of_matrix[kCount][kLaneGranule];
  float of_x[kCount][kLaneGranule];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int e = 0; e < kLaneGranule; ++e) {
      const int at = place(i) + e;
      of_matrix[i][e] = kWhole || at < left ? matrix[at * g.matrix_column] : 0.0F;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (kWhole) {
      LoadFour(x + place(i), of_x[i]);
    } else {
#pragma unroll
      for (int e = 0; e < kLaneGranule; ++e) {
        const int at = place(i) + e;
        of_x[i][e] = at < left ? x[at * g.x_column] : 0.0F;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int e = 0; e < kLaneGranule; ++e) {
      sum[i % 2] = MultiplyAdd(of_x[i][e], of_matrix[i][e], sum[i % 2]);
    }
  }
}

__global__ void __launch_bounds__(kLineThreads, 1)
    SkinnyLine(const __grid_constant__ SkinnyGemm g) {
#if __CUDA_ARCH__ >= 900
  constexpr int kRounds = 2;  // under way at once
  __shared__ float lanes[kPairWarps][kLanes][kMostLineColumns];
  __shared__ float warps[kLaneWarps][kMostLineColumns];  // of the pair's first block
  ClusterArrive();
  const int rank = ClusterRank();
  const int column = static_cast<int>(threadIdx.x) % g.line_columns;
  const int place = static_cast<int>(threadIdx.x) / g.line_columns;
  const bool adds = place < kPairWarps * kLanePairs;  // not one that fills the last warp
  const int lane = place % kLanePairs * 2;
  const int warp = place / kLanePairs;
  const int first = (rank * kPairWarps + warp) * kLaneBlock + lane * kLaneGranule;
  const auto pair = static_cast<int>(blockIdx.x) / kLinePair;
  const int64_t j = int64_t{pair / g.chunk_blocks} * g.line_columns + column;
  const bool inside = adds && j < g.length;
  LetKernelAfterStart();
  if (g.alone) WaitForKernelBefore();
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    float total = 0;
    for (int chunk = pair % g.chunk_blocks; chunk < g.chunks; chunk += g.chunk_blocks) {
      const int64_t begin = chunk * g.chunk_length + first;
      const auto count = static_cast<int>(min(g.p.k - chunk * g.chunk_length, g.chunk_length));
      const float* x = g.x + batch * g.x_batch + begin * g.x_column;
      const float* matrix = g.matrix + batch * g.matrix_batch + begin * g.matrix_column +
                            (inside ? j : g.length - 1) * g.matrix_row;
      float sum[2] = {};
      int done = 0;
      for (; adds && g.x_16 && done + kRounds * kLaneRound <= count; done += kRounds * kLaneRound) {
        AddLineRounds<kRounds, true>(g, x, matrix, 0, sum);
        x += kRounds * kLaneRound * g.x_column;
        matrix += kRounds * kLaneRound * g.matrix_column;
      }
      // A warp has whole blocks, or none.
      for (; adds && done + first - lane * kLaneGranule < count; done += kLaneRound) {
        AddLineRounds<1, false>(g, x, matrix, count - done - first, sum);
        x += kLaneRound * g.x_column;
        matrix += kLaneRound * g.matrix_column;
      }
      ClusterWait();  // the other block has begun, or has added up what was here
      if (adds) {
        lanes[warp][lane][column] = sum[0];
        lanes[warp][lane + 1][column] = sum[1];
      }
      __syncthreads();
      if (place < kPairWarps) {
        const auto& of = lanes[place];
        const float added = __fadd_rn(__fadd_rn(of[0][column], of[2][column]),
                                      __fadd_rn(of[1][column], of[3][column]));
        StoreToBlock(SharedAddress(&warps[rank * kPairWarps + place][column]), 0, added);
      }
      ClusterArrive();
      ClusterWait();
      if (rank == 0 && place == 0) {
        float all = warps[0][column];
#pragma unroll
        for (int w = 1; w < kLaneWarps; ++w) all = __fadd_rn(all, warps[w][column]);
        total = chunk == 0 ? all : __fadd_rn(total, all);
        if (g.partial != nullptr && inside) {
          g.partial[(chunk * g.p.batch_count + batch) * g.pitch + j] = all;
        }
      }
      ClusterArrive();
    }
    if (g.partial == nullptr && rank == 0 && place == 0 && inside) {
      StoreElement(g.p, batch, g.x_is_a ? 0 : j, g.x_is_a ? j : 0, total);
    }
  }
  ClusterWait();
#endif
}

}  // namespace

cudaError_t PrepareSkinnyLines(bool clusters, size_t lone_shared_bytes) {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, SkinnyDots));
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, SkinnyDotTotal));
  if (!clusters) return cudaSuccess;
  return LoadKernel(reinterpret_cast<const void*>(&SkinnyLine), lone_shared_bytes);
}

cudaError_t LaunchSkinnyDots(const SkinnyGemm& g, unsigned planes, cudaStream_t stream) {
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(TilesOf(g.length, g.dots.rows)),
                        static_cast<unsigned>(g.chunk_blocks), planes);
  config.blockDim = dim3(static_cast<unsigned>(32 * g.dots.rows * g.dots.warps));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, SkinnyDots, g);
}

cudaError_t LaunchSkinnyDotTotal(const SkinnyGemm& g, unsigned planes, cudaStream_t stream) {
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1, 1, planes);
  config.blockDim = dim3(kTotalThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, SkinnyDotTotal, g);
}

cudaError_t LaunchSkinnyLine(const SkinnyGemm& g, unsigned blocks, unsigned planes,
                             size_t lone_shared_bytes, cudaStream_t stream) {
  cudaLaunchAttribute attributes[] = {InClustersOf(kLinePair), StartsEarly()};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks, 1, planes);
  config.blockDim = dim3(static_cast<unsigned>(LineThreads(g.line_columns)));
  config.dynamicSmemBytes = g.alone ? lone_shared_bytes : 0;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = g.alone ? 2 : 1;
  return cudaLaunchKernelEx(&config, SkinnyLine, g);
}

}  // namespace gemm
