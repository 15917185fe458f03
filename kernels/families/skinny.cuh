// The device code of the skinny family; skinny.cu draws the picture.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_CUH_

#include <cuda.h>

#include "kernels/families/skinny_feed.cuh"
#include "kernels/families/skinny_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
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

// A warp's stream of its products, through its own part of the ring: no other warp has to do with
// it.
template <typename Shape, bool kXAlong, bool kMatrixAlong>
class SkinnyStream {
 public:
  static constexpr bool kBoxes = Shape::kEngine;
  using X = SkinnySide<true, kXAlong, Shape::kRows, Shape::kGranules, Shape::kTeams, Shape::kXRows>;
  using Matrix = SkinnySide<false, kMatrixAlong, Shape::kStrip, Shape::kGranules, Shape::kGroups,
                            Shape::kMatrixRows>;
  static_assert(4 * X::kRows * X::kPitch <= Shape::kXBytes &&
                4 * Matrix::kRows * Matrix::kPitch <= Shape::kMatrixBytes);
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
  // Half a warp has two teams where x's rows lie side by side, and two lanes where k does: of x it
  // reads 32 bytes in a row. Of a narrow strip it has one lane, and each four neighbours ask for
  // two addresses of either operand.
  static constexpr int kLaneUnit = kXAlong && !Shape::kNarrow ? Shape::kGroups : 32 / kLanes;
  static constexpr int kTeamUnit = kXAlong ? Shape::kGroups * kLanes : Shape::kGroups;
  __device__ __forceinline__ static int Group() {
    if constexpr (Shape::kNarrow) return Thread() % 2 + Thread() / 4 % 2 * 2;
    return Thread() % Shape::kGroups;
  }
  __device__ __forceinline__ static int Lane() { return Thread() / kLaneUnit % kLanes; }
  __device__ __forceinline__ static int Team() {
    if constexpr (Shape::kNarrow) return Thread() / 2 % 2 + Thread() / 8 % 2 * 2;
    return Thread() / kTeamUnit % Shape::kTeams;
  }

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
    if constexpr (Matrix::kShifted) {
      matrix_shifts_.template Set<Matrix>(MatrixAt(first_),
                                          kMatrixAlong ? g_.matrix_row : g_.matrix_column, Group());
    }
    if constexpr (X::kShifted) {
      x_shifts_.template Set<X>(XAt(first_), kXAlong ? g_.x_row : g_.x_column, Team());
    }
    // Boxes are asked for a whole ring ahead. Other copies come a step later, so that a step's
    // threads wait once, for theirs and for each other.
    constexpr int kAhead = kBoxes ? Shape::kStages : Shape::kStages - 1;
    if (kBoxes && g_.x_is_packed) {
#pragma unroll 1
      for (int s = 0; s < kAhead; ++s) Fetch<true, false>(s, (slot_ + s) % Shape::kStages);
      WaitForKernelBefore();
#pragma unroll 1
      for (int s = 0; s < kAhead; ++s) Fetch<false, true>(s, (slot_ + s) % Shape::kStages);
    } else {
#pragma unroll 1
      for (int s = 0; s < kAhead; ++s) Fetch(s, (slot_ + s) % Shape::kStages);
    }
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

  template <bool kFetchMatrix = true, bool kFetchX = true>
  __device__ __forceinline__ void Fetch(int step, int slot) {
    if (step < steps_) {
      const int l = step / kStepsABlock * kLaneRound + step % kStepsABlock * Shape::kStep;
      const uint32_t matrix_to = matrix_at_ + slot * Shape::kMatrixBytes;
      const uint32_t x_to = x_at_ + slot * Shape::kXBytes;
      if constexpr (kBoxes) {
        using MatrixBoxes = SkinnyBoxes<Matrix>;
        using XBoxes = SkinnyBoxes<X>;
        if (Thread() < MatrixBoxes::kBoxes) {
          const uint32_t full = full_ + 8 * slot;
          const int k = static_cast<int>(first_) + l;
          const int j = static_cast<int>(j0_);
          const int batch = static_cast<int>(batch_);
          const bool first = MatrixBoxes::kBoxes == 1 || Thread() == 0;
          if (kFetchMatrix) {
            if (first) BarrierArriveExpecting(full, MatrixBoxes::kBytes + XBoxes::kBytes);
            MatrixBoxes::Copy(matrix_to, map_matrix_, j, k, batch * g_.box_step_matrix, Thread(),
                              full);
          }
          if (kFetchX && (first || XBoxes::kBoxes == MatrixBoxes::kBoxes)) {
            XBoxes::Copy(x_to, map_x_, 0, k, batch * g_.box_step_x, Thread(), full);
          }
        }
      } else {
        const int64_t k = first_ + l;
        CopyMatrix<Matrix>(MatrixAt(k), kMatrixAlong ? g_.matrix_row : g_.matrix_column,
                           static_cast<int>(min(g_.length - j0_, int64_t{2 * Shape::kStrip})),
                           left_ - l, Thread(), matrix_to);
        CopyX<X>(XAt(k), g_.x_row, g_.x_column, g_.x_16, static_cast<int>(g_.rows), left_ - l,
                 Thread(), x_to);
      }
    }
    if constexpr (!kBoxes) CommitCopies();
  }

  __device__ __forceinline__ const float* MatrixAt(int64_t k) const {
    return g_.matrix + batch_ * g_.matrix_batch + j0_ * g_.matrix_row + k * g_.matrix_column;
  }
  __device__ __forceinline__ const float* XAt(int64_t k) const {
    return g_.x + batch_ * g_.x_batch + k * g_.x_column;
  }

  // Of what is full: the matrix's elements of a granule stay in registers, those of x pass by.
  __device__ __forceinline__ void Multiply(float (&sum)[kValues]) const {
    constexpr int kColumns = Shape::kThreadColumns;
    const uint32_t matrix = matrix_at_ + slot_ * Shape::kMatrixBytes;
    const uint32_t x = x_at_ + slot_ * Shape::kXBytes;
#pragma unroll Shape::kUnrolled
    for (int d = 0; d < Shape::kGranules / kLanes; ++d) {
      const int granule = d * kLanes + Lane();
      float b[kColumns][kLaneGranule];  // of the matrix, held; x passes by
      if constexpr (kMatrixAlong) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          LoadFour<Matrix>(matrix, matrix_shifts_, granule, j, 0, Group(), b[j]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kColumns * kLaneGranule; i += 4) {
          float four[4];
          LoadFour<Matrix>(matrix, matrix_shifts_, granule, i / 16, i / 4 % 4, Group(), four);
#pragma unroll
          for (int e = 0; e < 4; ++e) b[i / 16 * 4 + e][i / 4 % 4] = four[e];
        }
      }
      const auto multiply = [&](int r, int j, int l, float value) {
        sum[r * kColumns + j] = MultiplyAdd(value, b[j][l], sum[r * kColumns + j]);
      };
      if constexpr (!kXAlong && X::kShifted) {
        // Loads of single elements take longer: they come one turn before.
        constexpr int kTurns = Shape::kThreadRows;
        float four[2][4];
        LoadFour<X>(x, x_shifts_, granule, 0, 0, Team(), four[0]);
#pragma unroll
        for (int t = 0; t < kTurns; ++t) {
          if (t + 1 < kTurns) {
            LoadFour<X>(x, x_shifts_, granule, (t + 1) / 4, (t + 1) % 4, Team(), four[(t + 1) % 2]);
          }
#pragma unroll
          for (int i = 0; i < 4 * kColumns; ++i) {
            const int e = kMatrixAlong ? Turn(i, 4) : i / kColumns;
            const int j = kMatrixAlong ? i / 4 : Turn(i, kColumns);
            multiply(t / 4 * 4 + e, j, t % 4, four[t % 2][e]);
          }
        }
      } else if constexpr (!kXAlong) {
#pragma unroll
        for (int w = 0; w < Shape::kThreadRows / 4; ++w) {
#pragma unroll
          for (int l = 0; l < kLaneGranule; ++l) {
            float four[4];
            LoadFour<X>(x, x_shifts_, granule, w, l, Team(), four);
#pragma unroll
            for (int i = 0; i < 4 * kColumns; ++i) {
              const int e = kMatrixAlong ? Turn(i, 4) : i / kColumns;
              const int j = kMatrixAlong ? i / 4 : Turn(i, kColumns);
              multiply(w * 4 + e, j, l, four[e]);
            }
          }
        }
      } else if constexpr (Shape::kThreadRows % 2 != 0) {
        float four[4];
        LoadFour<X>(x, x_shifts_, granule, 0, 0, Team(), four);
#pragma unroll
        for (int i = 0; i < 4 * kColumns; ++i)
          multiply(0, i % kColumns, i / kColumns, four[i / kColumns]);
      } else if constexpr (!kMatrixAlong) {
#pragma unroll
        for (int r = 0; r < Shape::kThreadRows; r += 2) {
          float two[2][4];
          LoadFour<X>(x, x_shifts_, granule, r, 0, Team(), two[0]);
          LoadFour<X>(x, x_shifts_, granule, r + 1, 0, Team(), two[1]);
#pragma unroll
          for (int i = 0; i < 8 * kColumns; ++i) {
            const int l = i / (2 * kColumns);
            const int row = Turn(i / kColumns, 2);
            multiply(r + row, Turn(i, kColumns), l, two[row][l]);
          }
        }
      } else {
        float two[2][4];
#pragma unroll
        for (int t = 0; t <= 2 * Shape::kThreadRows; ++t) {
          const int even = t / 4 * 2;
          const int odd = (t - 1) / 4 * 2 + 1;
          if (t % 4 == 0 && even < Shape::kThreadRows)
            LoadFour<X>(x, x_shifts_, granule, even, 0, Team(), two[0]);
          if (t % 4 == 1 && odd < Shape::kThreadRows)
            LoadFour<X>(x, x_shifts_, granule, odd, 0, Team(), two[1]);
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            if (even < Shape::kThreadRows) multiply(even, j, t % 4, two[0][t % 4]);
            if (t > 0) multiply(odd, j, (t - 1) % 4, two[1][(t - 1) % 4]);
          }
        }
      }
    }
  }

  // Counts to and fro, so that what is read last is read again.
  __device__ __forceinline__ static constexpr int Turn(int i, int count) {
    return i / count % 2 == 0 ? i % count : count - 1 - i % count;
  }

  const SkinnyGemm& g_;
  const CUtensorMap* map_x_;
  const CUtensorMap* map_matrix_;
  uint32_t matrix_at_;
  uint32_t x_at_;
  uint32_t full_;
  int slot_ = 0;
  uint32_t parity_ = 0;
  SkinnyShifts matrix_shifts_;  // where rows are shifted
  SkinnyShifts x_shifts_;
  // Of the chunk.
  int64_t batch_ = 0;
  int64_t j0_ = 0;
  int64_t first_ = 0;
  int left_ = 0;
  int steps_ = 0;
};

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
  static_assert(kLaneWarps * kWarpBytes <= Shape::kRingBytes);
  // What a thread adds up at once.
  constexpr int kWidth = kResults < 4 * kSkinnyThreads ? 1 : kPitch % 4 == 0 ? 4 : 2;
  using Totals = SkinnyTotals<kWidth>;
  extern __shared__ __align__(1024) float ring[];
  const uint32_t shared = SharedAddress(ring);
  const uint32_t totals = shared + Shape::kTotalsAt;
  const int thread = static_cast<int>(threadIdx.x);
  const SkinnyPlace place(g);
  const int64_t j0 = place.strip * Shape::kStrip;
  const auto inside = static_cast<int>(min(g.length - j0, int64_t{Shape::kStrip}));
  const bool partial = g.partial != nullptr && place.chunks > 1;
  // The blocks of a cluster, one a chunk, share out its results: a block gets the sums of `columns`
  // of them from all. Totals are [chunk][row][column], where rows are neighbours in D such that
  // those lie in different banks.
  const int blocks = ClusterSize();
  const int columns = Shape::kStrip / blocks;
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
      if constexpr (Stream::kBoxes) OrderBoxesBehindStores();
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
