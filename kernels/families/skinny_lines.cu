// Where x is one line, every element of the matrix is used once, so nothing has to lie in shared
// memory: threads load from where it is, of any alignment, and as much is under way as registers
// hold. The order of the sum is that of the family (sum_order.h), whoever computes it: here its 8
// warps and their 4 lanes are threads.
//
//   one result   32 threads a chunk, the 4 lanes of 8 warps: of every 256 products a thread has
//                twice four in a row. More blocks of less each, since a second pass costs 2 us
//                whatever their number.
//   one row      a pair of blocks for 64 columns, of all 256 products in turn 128 each. Rows of the
//                matrix that begin anywhere take five sectors of 32 bytes for 32 columns and nine
//                for 64.

#include <type_traits>

#include "kernels/cuda_status.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/skinny_lines.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {
namespace {

constexpr int kDotThreads = 32;
constexpr int kLanes = LanesOf(1);
constexpr int kGranules = kLaneBlock / kLaneGranule / kLanes;  // of a lane, in a block of k
constexpr int kGranuleStep = kLanes * kLaneGranule;

__device__ __forceinline__ void LoadFour(const float* from, float (&four)[kLaneGranule]) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  four[0] = v.x;
  four[1] = v.y;
  four[2] = v.z;
  four[3] = v.w;
}

// Adds the products of `kRounds` rounds to the sum of a thread's lane. Without kWhole, those from
// `left` on are 0 * 0.
template <int kRounds, bool kWhole>
__device__ __forceinline__ void AddDotRounds(const SkinnyGemm& g, const float* x,
                                             const float* matrix, int left, float* sum) {
  constexpr int kCount = kRounds * kGranules;
  float of_x[kCount][kLaneGranule];
  float of_matrix[kCount][kLaneGranule];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int at = i / kGranules * kLaneRound + i % kGranules * kGranuleStep;
    if constexpr (kWhole) {
      LoadFour(x + at, of_x[i]);
      LoadFour(matrix + at, of_matrix[i]);
    } else {
#pragma unroll
      for (int e = 0; e < kLaneGranule; ++e) {
        const bool any = at + e < left;
        of_x[i][e] = any ? x[(at + e) * g.x_column] : 0.0F;
        of_matrix[i][e] = any ? matrix[(at + e) * g.matrix_column] : 0.0F;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int e = 0; e < kLaneGranule; ++e) *sum = MultiplyAdd(of_x[i][e], of_matrix[i][e], *sum);
  }
}

// The sum of a chunk of `count` products, in every thread of the warp.
__device__ __forceinline__ float DotOfChunk(const SkinnyGemm& g, const float* x,
                                            const float* matrix, int count) {
  const int thread = static_cast<int>(threadIdx.x);
  const int block = thread / kLanes * kLaneBlock;
  const int first = block + thread % kLanes * kLaneGranule;
  x += first * g.x_column;
  matrix += first * g.matrix_column;
  float sum = 0;
  int done = 0;
  if (g.x_16 && g.matrix_16) {
    // As many as possible are under way at once.
    const auto add = [&](auto rounds) {
      constexpr int kRounds = decltype(rounds)::value;
      while (done + kRounds * kLaneRound <= count) {
        AddDotRounds<kRounds, true>(g, x + done, matrix + done, 0, &sum);
        done += kRounds * kLaneRound;
      }
    };
    add(std::integral_constant<int, 4>());
    add(std::integral_constant<int, 1>());
  }
  // A warp has whole blocks, or none.
  for (; done + block < count; done += kLaneRound) {
    AddDotRounds<1, false>(g, x + done * g.x_column, matrix + done * g.matrix_column,
                           count - done - first, &sum);
  }
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

__global__ void __launch_bounds__(kDotThreads) SkinnyDot(const __grid_constant__ SkinnyGemm g) {
  LetKernelAfterStart();
  WaitForKernelBefore();
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    float total = 0;
    for (int chunk = static_cast<int>(blockIdx.x); chunk < g.chunks; chunk += g.chunk_blocks) {
      const int64_t begin = chunk * g.chunk_length;
      const float sum = DotOfChunk(g, g.x + batch * g.x_batch + begin * g.x_column,
                                   g.matrix + batch * g.matrix_batch + begin * g.matrix_column,
                                   static_cast<int>(min(g.p.k - begin, g.chunk_length)));
      total = chunk == 0 ? sum : __fadd_rn(total, sum);
      if (g.partial != nullptr && threadIdx.x == 0) {
        g.partial[(chunk * g.p.batch_count + batch) * g.pitch] = sum;
      }
    }
    if (g.partial == nullptr && threadIdx.x == 0) StoreElement(g.p, batch, 0, 0, total);
  }
}

// Of the row: threads are 64 columns by 4 warps by 2 of a warp's pairs of lanes.
constexpr int kPairWarps = kLaneWarps / kLinePair;
constexpr int kLanePairs = kLanes / 2;
constexpr int kLineThreads = kLineStrip * kPairWarps * kLanePairs;

// Adds the products of `kRounds` rounds to the sums of a thread's two lanes. Without kWhole, those
// from `left` on are 0 * 0.
template <int kRounds, bool kWhole>
__device__ __forceinline__ void AddLineRounds(const SkinnyGemm& g, const float* x,
                                              const float* matrix, int left, float (&sum)[2]) {
  constexpr int kCount = kRounds * kGranules * 2;  // granules, each second of the other lane
  const auto place = [](int i) {
    return i / (2 * kGranules) * kLaneRound + i / 2 % kGranules * kGranuleStep +
           i % 2 * kLaneGranule;
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
  if (kWhole && g.x_16) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) LoadFour(x + place(i), of_x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int e = 0; e < kLaneGranule; ++e) {
        const int at = place(i) + e;
        of_x[i][e] = kWhole || at < left ? x[at * g.x_column] : 0.0F;
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
  __shared__ float lanes[kPairWarps][kLanes][kLineStrip];
  __shared__ float warps[kLaneWarps][kLineStrip];  // of the pair's first block
  ClusterArrive();
  const int rank = ClusterRank();
  const int column = static_cast<int>(threadIdx.x) % kLineStrip;
  const int place = static_cast<int>(threadIdx.x) / kLineStrip;
  const int lane = place % kLanePairs * 2;
  const int warp = place / kLanePairs;
  const int first = (rank * kPairWarps + warp) * kLaneBlock + lane * kLaneGranule;
  const auto pair = static_cast<int>(blockIdx.x) / kLinePair;
  const int64_t j = int64_t{pair / g.chunk_blocks} * kLineStrip + column;
  const bool inside = j < g.length;
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
      for (; done + kRounds * kLaneRound <= count; done += kRounds * kLaneRound) {
        AddLineRounds<kRounds, true>(g, x, matrix, 0, sum);
        x += kRounds * kLaneRound * g.x_column;
        matrix += kRounds * kLaneRound * g.matrix_column;
      }
      // A warp has whole blocks, or none.
      for (; done + first - lane * kLaneGranule < count; done += kLaneRound) {
        AddLineRounds<1, false>(g, x, matrix, count - done - first, sum);
        x += kLaneRound * g.x_column;
        matrix += kLaneRound * g.matrix_column;
      }
      ClusterWait();  // the other block has begun, or has added up what was here
      lanes[warp][lane][column] = sum[0];
      lanes[warp][lane + 1][column] = sum[1];
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
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, SkinnyDot));
  if (!clusters) return cudaSuccess;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, SkinnyLine));
  return cudaFuncSetAttribute(SkinnyLine, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(lone_shared_bytes));
}

cudaError_t LaunchSkinnyDot(const SkinnyGemm& g, unsigned planes, cudaStream_t stream) {
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(g.chunk_blocks), 1, planes);
  config.blockDim = dim3(kDotThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, SkinnyDot, g);
}

cudaError_t LaunchSkinnyLine(const SkinnyGemm& g, unsigned planes, size_t lone_shared_bytes,
                             cudaStream_t stream) {
  const int64_t strips = TilesOf(g.length, kLineStrip);
  cudaLaunchAttribute attributes[] = {InClustersOf(kLinePair), StartsEarly()};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(strips * g.chunk_blocks * kLinePair), 1, planes);
  config.blockDim = dim3(kLineThreads);
  config.dynamicSmemBytes = g.alone ? lone_shared_bytes : 0;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = g.alone ? 2 : 1;
  return cudaLaunchKernelEx(&config, SkinnyLine, g);
}

}  // namespace gemm
