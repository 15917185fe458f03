// One row times a matrix of which k is contiguous, wherever its rows begin, and single results. A
// warp reads 128 bytes of a row, whose elements are the 32 lanes of the order (sum_order.h), and
// has kRows rows at once, which share what it reads of x; 32 loads a thread are under way, and what
// is next is asked for as what has come is added. Blocks stay: they go on from rows to rows, of all
// matrices. Of few rows the chunks are summed by several warps, which meet in their block, or in a
// second pass if there are many.

#include <algorithm>

#include "kernels/cuda_status.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/skinny_lines.cuh"
#include "kernels/families/skinny_lines.h"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/prefetch.cuh"

namespace gemm {
namespace {

constexpr int kTotalThreads = 256;

__device__ __forceinline__ int Thread() { return static_cast<int>(threadIdx.x) % 32; }

// A thread's stream of elements, every 32nd of kRows rows. Without kContiguous, which only a single
// result may be, k has any stride.
template <int kRows, bool kContiguous>
class DotStream {
 public:
  static constexpr int kDeep = kLineLoads / kRows;  // loads of a row
  static constexpr int kStep = kLineLanes * kDeep;  // products under way
  // Loads that are asked for together.
  static constexpr int kGroup = kDeep < kLineLoads / 2 ? kDeep : kLineLoads / 2;

  __device__ __forceinline__ explicit DotStream(const SkinnyGemm& g)
      : matrix_(g.matrix), x_(g.x), left_(0), rows_left_(1) {}

  // A warp's rows of an item, or none.
  __device__ __forceinline__ void Begin(const SkinnyGemm& g, int item, int chunk) {
    // Here and not before the loop, where registers would have to keep it.
    asm volatile("" : "+r"(item));
    left_ = 0;
    if (item >= g.line.items || chunk >= g.chunks) return;
    const LineItem at(g, item);
    const int64_t begin = chunk * g.chunk_length + Thread();
    const int64_t j = int64_t{at.strip} * kRows;
    rows_left_ = static_cast<int>(min(g.length - j, int64_t{kRows}));
    matrix_ = g.matrix + at.batch * g.matrix_batch + begin * Column(g) + j * g.matrix_row;
    x_ = g.x + at.batch * g.x_batch + begin * g.x_column;
    left_ = ChunkCount(g, chunk);
  }
  // What it begins with, 128 bytes a thread.
  __device__ __forceinline__ void Prefetch(const SkinnyGemm& g) const {
    const int row = Thread() / kDeep;
    const int l = Thread() % kDeep * kLineLanes;
    if (row < rows_left_ && l < left_) {
      PrefetchToL2(matrix_ + row * g.matrix_row + (l - Thread()) * Column(g));
    }
  }

  __device__ __forceinline__ void LoadX(const SkinnyGemm& g) {
    const float* from = x_;
    if (kStep <= left_) {
#pragma unroll
      for (int u = 0; u < kDeep; ++u) {
        next_x_[u] = *from;
        from += kLineLanes * g.x_column;
      }
    } else {
#pragma unroll
      for (int u = 0; u < kDeep; ++u) {
        next_x_[u] = LoadIf<false>(from, u * kLineLanes + Thread(), left_, kNoX);
        from += kLineLanes * g.x_column;
      }
    }
  }
  // In branches, so that no load is asked for before what was in its register is used up.
  template <int kRow, int kFirst>
  __device__ __forceinline__ void Load(const SkinnyGemm& g, const float* row) {
    const int64_t step = kLineLanes * Column(g);
    if ((kFirst + kGroup) * kLineLanes <= left_) {
#pragma unroll
      for (int u = kFirst; u < kFirst + kGroup; ++u)
        elements_[kRow][u] = LoadGlobal<true>(row + u * step);
    } else {
#pragma unroll
      for (int u = kFirst; u < kFirst + kGroup; ++u) {
        elements_[kRow][u] =
            LoadIf<true>(row + u * step, u * kLineLanes + Thread(), left_, kNoMatrix);
      }
    }
  }
  // Rows that do not exist are the last one again, and are not stored.
  template <int kRow>
  __device__ __forceinline__ const float* RowBehind(const SkinnyGemm& g, const float* row) const {
    return row + (kRow + 1 < rows_left_ ? g.matrix_row : 0);
  }

  template <int kRow = 0, int kFirst = 0>
  __device__ __forceinline__ void LoadAll(const SkinnyGemm& g, const float* row) {
    if constexpr (kFirst < kDeep) {
      Load<kRow, kFirst>(g, row);
      LoadAll<kRow, kFirst + kGroup>(g, row);
    } else if constexpr (kRow + 1 < kRows) {
      LoadAll<kRow + 1>(g, RowBehind<kRow>(g, row));
    }
  }
  // What has come is added, what is next asked for.
  template <int kRow = 0, int kFirst = 0>
  __device__ __forceinline__ void AddAndLoad(const SkinnyGemm& g, const float* row,
                                             float (&sum)[kRows]) {
    if constexpr (kFirst < kDeep) {
#pragma unroll
      for (int u = kFirst; u < kFirst + kGroup; ++u) {
        sum[kRow] = MultiplyAdd(x_of_elements_[u], elements_[kRow][u], sum[kRow]);
      }
      Load<kRow, kFirst>(g, row);
      AddAndLoad<kRow, kFirst + kGroup>(g, row, sum);
    } else if constexpr (kRow + 1 < kRows) {
      AddAndLoad<kRow + 1>(g, RowBehind<kRow>(g, row), sum);
    }
  }
  __device__ __forceinline__ void Advance(const SkinnyGemm& g) {
#pragma unroll
    for (int u = 0; u < kDeep; ++u) x_of_elements_[u] = next_x_[u];
    matrix_ += kStep * Column(g);
    x_ += kStep * g.x_column;
    left_ -= kStep;
  }
  __device__ __forceinline__ const float* Matrix() const { return matrix_; }

 private:
  __device__ __forceinline__ static int64_t Column(const SkinnyGemm& g) {
    return kContiguous ? 1 : g.matrix_column;
  }

  const float* matrix_;
  const float* x_;
  int left_;  // products, of those that are loaded next and those behind
  int rows_left_;
  float next_x_[kDeep];
  float x_of_elements_[kDeep];
  float elements_[kRows][kDeep];
};

// Adds the lanes of kRows sums, in halves. A thread ends up with the sum of one row, that of its
// number over 32 / kRows.
template <int kRows, int kHalf = kLineLanes / 2, int kWidth = kRows>
__device__ __forceinline__ void AddLanes(float (&sum)[kRows]) {
  if constexpr (kHalf > 0) {
    if constexpr (kWidth > 1) {
      const bool upper = (Thread() & kHalf) != 0;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        const float sent = upper ? sum[i] : sum[i + kWidth / 2];
        const float kept = upper ? sum[i + kWidth / 2] : sum[i];
        sum[i] = __fadd_rn(kept, __shfl_xor_sync(0xffffffff, sent, kHalf));
      }
    } else {
      sum[0] = __fadd_rn(sum[0], __shfl_xor_sync(0xffffffff, sum[0], kHalf));
    }
    AddLanes<kRows, kHalf / 2, (kWidth > 1 ? kWidth / 2 : 1)>(sum);
  }
}

// Sums of chunks that meet in their block, of 32 and more the 32 lanes that they are added in.
struct DotSums {
  float of[2][kMostDotGroups][kDeepChunkLanes][kMostDotRows];  // of turns by turns
};

template <int kRows, bool kContiguous>
__device__ __forceinline__ void SumDots(const SkinnyGemm& g, DotSums* sums) {
  using Stream = DotStream<kRows, kContiguous>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = warp / g.line.share;  // warps that share their rows
  const int sharer = warp - group * g.line.share;
  const int groups = static_cast<int>(blockDim.x) / 32 / g.line.share;
  const int item_step = static_cast<int>(gridDim.x) * groups;
  LineTurn turn(g, static_cast<int>(blockIdx.x) * groups + group);
  Stream stream(g);
  stream.Begin(g, turn.item, turn.first + sharer);
  stream.Prefetch(g);
  WaitForKernelBefore();
  LetKernelAfterStart();
  stream.LoadX(g);
  stream.LoadAll(g, stream.Matrix());
  stream.Advance(g);
  float total = 0;
  int parity = 0;
  // The groups of a block go on together.
  while (turn.item - group < g.line.items) {
    const int chunk = turn.first + sharer;
    const bool any = turn.item < g.line.items && chunk < g.chunks;
    float sum[kRows] = {};
    int left = any ? ChunkCount(g, chunk) : 0;
#pragma unroll 1
    do {
      left -= Stream::kStep;
      if (left <= 0) {
        const LineTurn next = turn.Next(g, item_step);
        stream.Begin(g, next.item, next.first + sharer);
      }
      stream.LoadX(g);
      stream.AddAndLoad(g, stream.Matrix(), sum);
      stream.Advance(g);
    } while (left > 0);
    AddLanes<kRows>(sum);
    const int row = Thread() / Stream::kDeep;
    const bool writes = any && Thread() % Stream::kDeep == 0;
    const LineItem at(g, turn.item);
    const int64_t j = int64_t{at.strip} * kRows + row;
    if (g.line.parts > 1) {
      if (writes && j < g.length) StorePart(g, at, j, sum[0]);
    } else if (g.line.share == 1 && g.length > 1) {
      total = chunk == 0 ? sum[0] : __fadd_rn(total, sum[0]);
      if (writes && j < g.length && turn.Ends(g)) StoreLine(g, at.batch, j, total);
    } else {
      auto& of = sums->of[parity][group];
      if (writes) {
        float& lane = of[chunk % kDeepChunkLanes][row];
        lane = chunk < kDeepChunkLanes ? sum[0] : __fadd_rn(lane, sum[0]);
      }
      if (turn.Ends(g)) {
        __syncthreads();
        if (writes && sharer == 0 && j < g.length) {
          float all = of[0][row];
          for (int c = 1; c < min(kDeepChunkLanes, g.chunks); ++c) all = __fadd_rn(all, of[c][row]);
          StoreLine(g, at.batch, j, all);
        }
        parity ^= 1;
      }
    }
    turn = turn.Next(g, item_step);
  }
}

__global__ void __launch_bounds__(kMostDotThreads, 1)
    SkinnyDots(const __grid_constant__ SkinnyGemm g) {
  __shared__ DotSums sums;
  switch (g.line.rows) {
    case 8:
      SumDots<8, true>(g, &sums);
      break;
    case 2:
      SumDots<2, true>(g, &sums);
      break;
    default:
      if (g.matrix_column == 1) {
        SumDots<1, true>(g, &sums);
      } else {
        SumDots<1, false>(g, &sums);
      }
      break;
  }
}

// The second pass of single results, a block each: chunks in lanes, and those in order.
__global__ void __launch_bounds__(kTotalThreads)
    SkinnyDotTotal(const __grid_constant__ SkinnyGemm g) {
  __shared__ float sums[kMostSingleChunks];
  LetKernelAfterStart();
  WaitForKernelBefore();
  for (int64_t batch = blockIdx.x; batch < g.p.batch_count; batch += gridDim.x) {
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
    if (threadIdx.x < kDeepChunkLanes) {
      float lane = sums[threadIdx.x];
#pragma unroll 4
      for (int c = Thread() + kDeepChunkLanes; c < g.chunks; c += kDeepChunkLanes) {
        lane = __fadd_rn(lane, sums[c]);
      }
      float total = __shfl_sync(0xffffffff, lane, 0);
#pragma unroll
      for (int i = 1; i < kDeepChunkLanes; ++i) {
        const float next = __shfl_sync(0xffffffff, lane, i);
        total = i < g.chunks ? __fadd_rn(total, next) : total;
      }
      if (threadIdx.x == 0) StoreElement(g.p, batch, 0, 0, total);
    }
    __syncthreads();  // sums may be written
  }
}

}  // namespace

cudaError_t PrepareSkinnyDots(size_t shared_bytes) {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, SkinnyDotTotal));
  return LoadKernel(reinterpret_cast<const void*>(&SkinnyDots), shared_bytes);
}

cudaError_t LaunchSkinnyDots(const SkinnyGemm& g, const LineLaunch& launch, cudaStream_t stream) {
  return LaunchLine(reinterpret_cast<const void*>(&SkinnyDots), g, launch, stream);
}

cudaError_t LaunchSkinnyDotTotal(const SkinnyGemm& g, cudaStream_t stream) {
  constexpr int64_t kMostBlocks = 65535;
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min(g.p.batch_count, kMostBlocks)));
  config.blockDim = dim3(kTotalThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, SkinnyDotTotal, g);
}

}  // namespace gemm
