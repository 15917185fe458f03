// The device code of the skinny family; skinny.cu draws the picture.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_CUH_

#include <cuda.h>

#include "kernels/families/skinny_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// One operand of a step: kLines rows of x, or of j, by kGranules times four products, with k
// contiguous (kAlong) or the lines. It lies in shared memory as the copy engine leaves it.
template <bool kIsX, bool kIsAlong, int kLineCount, int kGranuleCount>
struct SkinnySide {
  static constexpr bool kX = kIsX;
  static constexpr bool kAlong = kIsAlong;
  static constexpr int kLines = kLineCount;
  static constexpr int kGranules = kGranuleCount;
  static constexpr int kStep = kGranules * kLaneGranule;

  // Where 16 bytes lie, in units of them: product i and on of the granule, of line `at`, or of the
  // four lines from 4 * at on. Swizzled such that what a quarter warp reads, or of x two quarter
  // warps, meets no bank twice.
  __device__ __forceinline__ static int UnitAt(int granule, int i, int at) {
    if constexpr (kAlong) {
      if constexpr (kX) return at * kGranules + granule;
      return at * kGranules + (granule ^ (kGranules == 8 ? at % 8 : at / 2 % 4));
    } else {
      const int l = granule * kLaneGranule + i;
      if constexpr (kX && kLines == 8) return l * 2 + (at ^ (granule % 2));
      if constexpr (kX && kLines == 16) return l * 4 + (at ^ (l / 2 % 4));
      return l * (kLines / 4) + at;
    }
  }

  // The line of a thread's i-th, of `teams` threads that share them.
  template <int kTeams>
  __device__ __forceinline__ static int LineOf(int i, int team) {
    return kAlong ? i * kTeams + team : (i / 4 * kTeams + team) * 4 + i % 4;
  }
};

// Copies a step by the threads of a warp, kPiece elements at a time: of `lines` lines and `left`
// products, zeros behind those. kWhole: there are as many as the step has.
template <typename Side, int kPiece, bool kWhole>
__device__ __forceinline__ void CopyPieces(const float* from, int64_t line_stride, int64_t k_stride,
                                           int lines, int left, int thread, uint32_t to) {
  // Pieces side by side in a row of memory, and rows.
  constexpr int kWide = (Side::kAlong ? Side::kStep : Side::kLines) / kPiece;
  constexpr int kPieces = Side::kLines * Side::kStep / kPiece;
  constexpr int kTurns = (kPieces + 31) / 32;
  const int64_t stride = Side::kAlong ? line_stride : k_stride;
  const int64_t step = kPiece * (Side::kAlong ? k_stride : line_stride);
  // Where a thread stays in its column, one pointer goes on from row to row: offsets that the
  // compiler would keep take registers from the sums.
  constexpr bool kDown = kWhole && 32 % kWide == 0;
  const float* next = from + thread / kWide * stride + thread % kWide * step;
#pragma unroll !kWhole ? 1 : kTurns <= 8 && kPiece == 4 ? kTurns : 4
  for (int c = 0; c < kTurns; ++c) {
    const int piece = thread + 32 * c;
    if (kPieces % 32 != 0 && piece >= kPieces) break;
    const int row = piece / kWide;
    const int at = piece % kWide * kPiece;  // in the row
    // Results of lines that do not exist are not stored, whatever they are.
    if (!kWhole && Side::kAlong && row >= lines) break;
    const int unit =
        Side::kAlong ? Side::UnitAt(at / 4, 0, row) : Side::UnitAt(row / 4, row % 4, at / 4);
    int elements = kPiece;
    if constexpr (!kWhole) {
      const bool any = row < (Side::kAlong ? lines : left);
      elements = any ? max(0, min(kPiece, (Side::kAlong ? left : lines) - at)) : 0;
    }
    const float* source = kDown ? next : from + row * stride + piece % kWide * step;
    if (!kWhole && elements == 0) source = from;
    if constexpr (kPiece == 4) {
      CopyAsync16(to + 16 * unit, source, 4 * elements);
    } else {
      CopyAsync4(to + 16 * unit + 4 * (at % 4), source, 4 * elements);
    }
    if constexpr (kDown) {
      next += 32 / kWide * stride;
      asm volatile("" : "+l"(next));
    }
  }
}

template <typename Side>
__device__ __forceinline__ void CopySide(const float* from, int64_t line_stride, int64_t k_stride,
                                         bool by_16, int lines, int left, int thread, uint32_t to) {
  const bool whole = lines >= Side::kLines && left >= Side::kStep;
  if constexpr (Side::kAlong || Side::kLines >= 4) {
    if (by_16 && whole) {
      CopyPieces<Side, 4, true>(from, line_stride, k_stride, lines, left, thread, to);
      return;
    }
    if (by_16) {
      CopyPieces<Side, 4, false>(from, line_stride, k_stride, lines, left, thread, to);
      return;
    }
  }
  if (whole) {
    CopyPieces<Side, 1, true>(from, line_stride, k_stride, lines, left, thread, to);
  } else {
    CopyPieces<Side, 1, false>(from, line_stride, k_stride, lines, left, thread, to);
  }
}

// Calls take(line, product, value) for the thread's kMine lines of a granule, products ascending.
template <typename Side, int kMine, int kTeams, typename Take>
__device__ __forceinline__ void ForEachElement(uint32_t from, int granule, int team, Take take) {
#pragma unroll
  for (int w = 0; w < (Side::kAlong ? kMine : kMine / 4); ++w) {
#pragma unroll
    for (int i = 0; i < (Side::kAlong ? 1 : 4); ++i) {
      const float4 v = LoadShared4(from + 16 * Side::UnitAt(granule, i, w * kTeams + team));
      const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (Side::kAlong) {
          take(w, e, values[e]);
        } else {
          take(w * 4 + e, i, values[e]);
        }
      }
    }
  }
}

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

// A warp's stream of its products, through its own part of the ring: no other warp has to do with
// it.
template <typename Shape, bool kXAlong, bool kMatrixAlong, bool kBoxes>
class SkinnyStream {
 public:
  using X = SkinnySide<true, kXAlong, Shape::kRows, Shape::kGranules>;
  using Matrix = SkinnySide<false, kMatrixAlong, Shape::kStrip, Shape::kGranules>;
  static constexpr int kLanes = LanesOf(Shape::kRows);
  static constexpr int kValues = Shape::kThreadRows * Shape::kThreadColumns;

  __device__ __forceinline__ SkinnyStream(const SkinnyGemm& g, const CUtensorMap* map_x,
                                          const CUtensorMap* map_matrix, uint32_t shared)
      : g_(g), map_x_(map_x), map_matrix_(map_matrix) {
    const uint32_t warp = threadIdx.x / 32;
    matrix_at_ = shared + warp * (Shape::kStages * Shape::kMatrixBytes);
    x_at_ = shared + kLaneWarps * Shape::kStages * Shape::kMatrixBytes +
            warp * (Shape::kStages * Shape::kXBytes);
    full_ = shared + Shape::kBarriersAt + warp * (8 * Shape::kStages);
    if constexpr (kBoxes) {
      if (Thread() == 0) {
        for (int s = 0; s < Shape::kStages; ++s) BarrierInit(full_ + 8 * s, 1);
        BarrierInitFence();
      }
      __syncwarp();
    }
  }

  __device__ __forceinline__ static int Thread() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ static int Group() { return Thread() % kSkinnyGroups; }
  __device__ __forceinline__ static int Team() { return Thread() / kSkinnyGroups % Shape::kTeams; }
  __device__ __forceinline__ static int Lane() { return Thread() / (32 / kLanes); }

  // The warp's sums of the chunk of `count` products from `begin` on.
  __device__ __forceinline__ void Sum(int64_t batch, int64_t begin, int count, int64_t j0,
                                      float (&sum)[kValues]) {
    batch_ = batch;
    j0_ = j0;
    first_ = begin + threadIdx.x / 32 * kLaneBlock;
    left_ = count - static_cast<int>(threadIdx.x / 32) * kLaneBlock;
    steps_ = 0;
    if (left_ > 0) {
      const int rounds = (left_ - 1) / kLaneRound;
      const int last = min(left_ - rounds * kLaneRound, kLaneBlock);
      steps_ = rounds * kStepsABlock + (last - 1) / Shape::kStep + 1;
    }
    // Boxes are asked for a whole ring ahead. Other copies come a step later, so that a step's
    // threads wait once, for theirs and for each other.
    constexpr int kAhead = kBoxes ? Shape::kStages : Shape::kStages - 1;
#pragma unroll 1
    for (int s = 0; s < kAhead; ++s) Fetch(s, (slot_ + s) % Shape::kStages);
#pragma unroll
    for (float& value : sum) value = 0;
#pragma unroll 1
    for (int step = 0; step < steps_; ++step) {
      if constexpr (kBoxes) {
        BarrierWait(full_ + 8 * slot_, parity_);
      } else {
        WaitForCopyGroups<Shape::kStages - 2>();
        __syncwarp();
        Fetch(step + kAhead, (slot_ + kAhead) % Shape::kStages);
      }
      Multiply(sum);
      if constexpr (kBoxes) {
        __syncwarp();
        Fetch(step + kAhead, slot_);
      }
      if (++slot_ == Shape::kStages) {
        slot_ = 0;
        parity_ ^= 1;
      }
    }
    if constexpr (!kBoxes) WaitForCopies();
  }

 private:
  static constexpr int kStepsABlock = kLaneBlock / Shape::kStep;

  __device__ __forceinline__ void Fetch(int step, int slot) {
    if (step < steps_) {
      const int l = step / kStepsABlock * kLaneRound + step % kStepsABlock * Shape::kStep;
      const uint32_t matrix_to = matrix_at_ + slot * Shape::kMatrixBytes;
      const uint32_t x_to = x_at_ + slot * Shape::kXBytes;
      if constexpr (kBoxes) {
        if (Thread() == 0) {
          const uint32_t full = full_ + 8 * slot;
          const int k = static_cast<int>(first_) + l;
          const int j = static_cast<int>(j0_);
          const int batch = static_cast<int>(batch_);
          BarrierArriveExpecting(full, 4 * Shape::kStep * (Shape::kStrip + Shape::kRows));
          CopyBox(matrix_to, map_matrix_, kMatrixAlong ? k : j, kMatrixAlong ? j : k,
                  batch * g_.box_step_matrix, full);
          CopyBox(x_to, map_x_, kXAlong ? k : 0, kXAlong ? 0 : k, batch * g_.box_step_x, full);
        }
      } else {
        const int64_t k = first_ + l;
        CopySide<Matrix>(
            g_.matrix + batch_ * g_.matrix_batch + j0_ * g_.matrix_row + k * g_.matrix_column,
            g_.matrix_row, g_.matrix_column, g_.matrix_16,
            static_cast<int>(min(g_.length - j0_, int64_t{Shape::kStrip})), left_ - l, Thread(),
            matrix_to);
        CopySide<X>(g_.x + batch_ * g_.x_batch + k * g_.x_column, g_.x_row, g_.x_column, g_.x_16,
                    static_cast<int>(g_.rows), left_ - l, Thread(), x_to);
      }
    }
    if constexpr (!kBoxes) CommitCopies();
  }

  // Of what is full: the matrix's elements of a granule stay in registers, those of x pass by.
  __device__ __forceinline__ void Multiply(float (&sum)[kValues]) const {
    constexpr int kColumns = Shape::kThreadColumns;
    const uint32_t matrix = matrix_at_ + slot_ * Shape::kMatrixBytes;
    const uint32_t x = x_at_ + slot_ * Shape::kXBytes;
#pragma unroll
    for (int d = 0; d < Shape::kGranules / kLanes; ++d) {
      const int granule = d * kLanes + Lane();
      float b[kColumns][kLaneGranule];
      ForEachElement<Matrix, kColumns, kSkinnyGroups>(
          matrix, granule, Group(), [&](int j, int l, float value) { b[j][l] = value; });
      ForEachElement<X, Shape::kThreadRows, Shape::kTeams>(
          x, granule, Team(), [&](int r, int l, float value) {
#pragma unroll
            for (int j = 0; j < kColumns; ++j) {
              sum[r * kColumns + j] = MultiplyAdd(value, b[j][l], sum[r * kColumns + j]);
            }
          });
    }
  }

  const SkinnyGemm& g_;
  const CUtensorMap* map_x_;
  const CUtensorMap* map_matrix_;
  uint32_t matrix_at_;
  uint32_t x_at_;
  uint32_t full_;
  int slot_ = 0;
  uint32_t parity_ = 0;
  // Of the chunk.
  int64_t batch_ = 0;
  int64_t j0_ = 0;
  int64_t first_ = 0;
  int left_ = 0;
  int steps_ = 0;
};

template <int kRows, bool kXAlong, bool kMatrixAlong, bool kBoxes>
__device__ __forceinline__ void SkinnyMultiply(const SkinnyGemm& g, const CUtensorMap* map_x,
                                               const CUtensorMap* map_matrix) {
  using Shape = SkinnyShape<kRows>;
  using Stream = SkinnyStream<Shape, kXAlong, kMatrixAlong, kBoxes>;
  constexpr int kValues = Stream::kValues;
  constexpr int kKept = kValues / Stream::kLanes;
  constexpr int kColumns = Shape::kThreadColumns;
  constexpr int kResults = kRows * Shape::kStrip;
  extern __shared__ __align__(1024) float ring[];
  float* totals = ring + Shape::kTotalsAt / 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t j0 = int64_t{blockIdx.x} * Shape::kStrip;
  const auto inside = static_cast<int>(min(g.length - j0, int64_t{Shape::kStrip}));
  // The blocks of a cluster, one a chunk, share out its results: a block gets the sums of `share`
  // of them from all, [chunk][result].
  const int blocks = ClusterSize();
  const int share = kResults / blocks;
  if (blocks > 1) ClusterArrive();
  if (g.partial != nullptr) LetKernelAfterStart();
  Stream stream(g, map_x, map_matrix, SharedAddress(ring));
  const auto store = [&](int64_t batch, int e, float result) {
    const int r = e / Shape::kStrip;
    const int j = e % Shape::kStrip;
    if (r >= g.rows || j >= inside) return;
    const int64_t row = g.x_is_a ? r : j0 + j;
    const int64_t column = g.x_is_a ? j0 + j : r;
    if (g.partial != nullptr) {
      g.partial[((blockIdx.y * g.p.batch_count + batch) * g.p.m + row) * g.pitch + column] = result;
    } else {
      StoreElement(g.p, batch, row, column, result);
    }
  };
  for (int64_t batch = blockIdx.z; batch < g.p.batch_count; batch += gridDim.z) {
    for (auto chunk = static_cast<int>(blockIdx.y); chunk < g.chunks;
         chunk += static_cast<int>(gridDim.y)) {
      const int64_t begin = chunk * g.chunk_length;
      float sum[kValues];
      stream.Sum(batch, begin, static_cast<int>(min(g.p.k - begin, g.chunk_length)), j0, sum);
      const int first =
          AddLanes<Stream::kLanes / 2, 32 / Stream::kLanes, kValues>(Stream::Lane(), sum);
      __syncthreads();  // the ring has run dry
      float* mine = ring + thread / 32 * (kRows * Shape::kPitch);
#pragma unroll
      for (int i = 0; i < kKept; ++i) {
        const int r =
            Stream::X::template LineOf<Shape::kTeams>((first + i) / kColumns, Stream::Team());
        const int j =
            Stream::Matrix::template LineOf<kSkinnyGroups>((first + i) % kColumns, Stream::Group());
        mine[r * Shape::kPitch + j] = sum[i];
      }
      __syncthreads();
      // All have begun, or have done with the sums of the matrix before.
      if (blocks > 1) ClusterWait();
      const bool last = chunk + static_cast<int>(gridDim.y) >= g.chunks;
      for (int e = thread; e < kResults; e += kSkinnyThreads) {
        const float* from = ring + e / Shape::kStrip * Shape::kPitch + e % Shape::kStrip;
        float total = from[0];
#pragma unroll
        for (int w = 1; w < kLaneWarps; ++w) {
          total = __fadd_rn(total, from[w * (kRows * Shape::kPitch)]);
        }
        if (blocks > 1) {
          StoreToBlock(SharedAddress(totals + chunk * share + e % share), e / share, total);
          continue;
        }
        if (chunk != static_cast<int>(blockIdx.y)) total = __fadd_rn(totals[e], total);
        if (last) {
          store(batch, e, total);
        } else {
          totals[e] = total;
        }
      }
      if constexpr (kBoxes) OrderBoxesBehindStores();
      __syncthreads();  // the ring may be filled
    }
    if (blocks > 1) {
      ClusterArrive();
      ClusterWait();
      for (int s = thread; s < share; s += kSkinnyThreads) {
        float result = totals[s];
        for (int c = 1; c < g.chunks; ++c) result = __fadd_rn(result, totals[c * share + s]);
        store(batch, ClusterRank() * share + s, result);
      }
      ClusterArrive();
    }
  }
  if (blocks > 1) ClusterWait();
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
