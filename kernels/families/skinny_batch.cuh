// What a block of the kernel for batches of narrow products does: skinny_batch.cu says why.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_BATCH_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_BATCH_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/skinny.cuh"
#include "kernels/families/skinny_batch.h"
#include "kernels/families/skinny_feed.cuh"
#include "kernels/families/skinny_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/warpgroup.cuh"

namespace gemm {

// Matrices begin as far behind multiples of 16 bytes as every fourth after them does, so each of
// four has tensor maps of its own.
inline constexpr int kBatchPhases = 4;

// Eight warps multiply, four copy.
inline constexpr int kBatchCopiers = 128;
inline constexpr int kBatchThreads = kSkinnyThreads + kBatchCopiers;
inline constexpr int kBatchRegisters = 224;
inline constexpr int kBatchCopierRegisters = 56;
// No more than what the launch gives, or those that multiply wait for ever.
static_assert(kBatchRegisters * kSkinnyThreads + kBatchCopierRegisters * kBatchCopiers <=
              65536 / kBatchThreads / 8 * 8 * kBatchThreads);

// A stage has a round of k, 32 products for each warp: of the matrix each fourth row together, as
// the boxes bring it, which are half a round wide where k is contiguous; of x each line.
template <int kRowsOfX, bool kMatrixAlong>
struct BatchShape {
  static constexpr int kRows = kRowsOfX;
  static constexpr int kLeastRows = kRows > 16 ? 17 : 5;
  static constexpr bool kAlong = kMatrixAlong;
  static constexpr int kLanes = LanesOf(kRows);
  static constexpr int kStrip = SkinnyStrip(kRows);
  static constexpr int kGroups = 8;
  static constexpr int kTeams = 32 / kGroups / kLanes;
  static constexpr int kThreadRows = kRows / kTeams;
  static constexpr int kThreadColumns = kStrip / kGroups;
  static constexpr int kValues = kThreadRows * kThreadColumns;
  static constexpr int kStages = kRows > 16 ? 2 : 3;
  // Granules in the body of a lane's loop.
  static constexpr int kUnrolled = kValues <= 64 ? 2 : 1;

  static constexpr int kBoxes = kAlong ? 2 : 1;  // of each fourth row
  static constexpr int kBoxRows = (kAlong ? kStrip : kLaneRound) / kSkinnyQuarters;
  static constexpr int kPitch = BatchBoxOuter(kStrip, kAlong);
  static constexpr int kQuarter = kBoxRows * kPitch;  // elements
  static constexpr int kMatrixElements = kBoxes * kSkinnyQuarters * kQuarter;
  // So that elements of sixteen lines, two of each, are stored in two turns.
  static constexpr int kXPitch = kLaneRound + 4;
  static constexpr int kStageBytes = (4 * (kMatrixElements + kRows * kXPitch) + 127) / 128 * 128;
  static constexpr int kBarriersAt = kStages * kStageBytes;
  static constexpr int kSumsAt = (kBarriersAt + 2 * 8 * kStages + 127) / 128 * 128;
  static_assert(kQuarter % 32 == 0);

  // Of a thread's lines the i-th. They are all of one shift where k is contiguous.
  __device__ __forceinline__ static constexpr int LineOf(int i, int group) {
    return kAlong ? group % 4 + 16 * (group / 4) + 4 * (i % 4) + 32 * (i / 4) : i * kGroups + group;
  }

  // A warp leaves its sums four of a thread together: of row r the fours of all groups in an order
  // of their own, so that neither groups nor rows meet in a bank. Few rows have room for the sums
  // of two chunks, others leave them where the last stage was.
  static constexpr bool kSumsApart = kRows <= 16;
  static constexpr int kFours = kStrip / 4;
  static constexpr int kSumBytes = 4 * kRows * kStrip;  // of a warp
  __device__ __forceinline__ static constexpr int SumAt(int r, int four) {
    return 16 * (r * kFours + (four ^ r % kGroups));
  }
  static_assert(kSumsApart || kLaneWarps * kSumBytes <= kStageBytes);
  static constexpr int kSharedBytes = kSumsAt + (kSumsApart ? 2 * kLaneWarps * kSumBytes : 0);
};

// Where a thread reads in a stage: offsets from there on are constants.
template <typename Shape>
struct BatchReader {
  static constexpr int kBases = Shape::kAlong ? 1 : kLaneGranule;

  uint32_t matrix[kBases];  // of each product of a granule, where the lines are contiguous
  uint32_t x;

  // But for the stage and how far rows are shifted.
  __device__ __forceinline__ BatchReader(int warp, int lane, int group, int team) {
    constexpr int kHalf = kLaneWarps / Shape::kBoxes;  // warps
#pragma unroll
    for (int l = 0; l < kBases; ++l) {
      matrix[l] = Shape::kAlong
                      ? 4 * ((warp / kHalf * kSkinnyQuarters + group % 4) * Shape::kQuarter +
                             group / 4 * 4 * Shape::kPitch + warp % kHalf * kLaneBlock +
                             lane * kLaneGranule)
                      : 4 * (l * Shape::kQuarter +
                             (warp * (kLaneBlock / kLaneGranule) + lane) * Shape::kPitch + group);
    }
    x = 4 *
        (Shape::kMatrixElements + team * Shape::kXPitch + warp * kLaneBlock + lane * kLaneGranule);
  }

  // Four products of the thread's j-th line, of the d-th granule of the lane.
  __device__ __forceinline__ static void Load(const uint32_t (&from)[kBases], int d, int j,
                                              float (&four)[kLaneGranule]) {
#pragma unroll
    for (int l = 0; l < kLaneGranule; ++l) {
      if constexpr (Shape::kAlong) {
        four[l] = LoadShared(from[0] + 4 * ((j % 4 + 8 * (j / 4)) * Shape::kPitch +
                                            d * Shape::kLanes * kLaneGranule + l));
      } else {
        four[l] =
            LoadShared(from[l] + 4 * (d * Shape::kLanes * Shape::kPitch + j * Shape::kGroups));
      }
    }
  }
  // Of its r-th row.
  __device__ __forceinline__ static void LoadX(uint32_t from, int d, int r,
                                               float (&four)[kLaneGranule]) {
    const float4 v = LoadShared4(
        from + 4 * (r * Shape::kTeams * Shape::kXPitch + d * Shape::kLanes * kLaneGranule));
    four[0] = v.x;
    four[1] = v.y;
    four[2] = v.z;
    four[3] = v.w;
  }
};

// A warp's sums of a stage: the matrix's elements of a granule stay in registers, those of x pass
// by, loaded a row ahead, of as many as there are, by fours.
template <typename Shape>
__device__ __forceinline__ void MultiplyStage(uint32_t stage, const BatchReader<Shape>& reader,
                                              const SkinnyShifts& shifts, int rows,
                                              float (&sum)[Shape::kValues]) {
  using Reader = BatchReader<Shape>;
  constexpr int kColumns = Shape::kThreadColumns;
  constexpr int kUnrolled = Shape::kUnrolled;
  constexpr int kTogether = 4 / Shape::kTeams;
  uint32_t matrix[Reader::kBases];
#pragma unroll
  for (int l = 0; l < Reader::kBases; ++l) matrix[l] = stage + reader.matrix[l] + shifts.bytes[l];
  uint32_t x = stage + reader.x;
#pragma unroll 1
  for (int turn = 0; turn < kLaneBlock / kLaneGranule / Shape::kLanes / kUnrolled; ++turn) {
#pragma unroll
    for (int d = 0; d < kUnrolled; ++d) {
      float b[kColumns][kLaneGranule];
      float row[2][kLaneGranule];
      Reader::LoadX(x, d, 0, row[0]);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) Reader::Load(matrix, d, j, b[j]);
#pragma unroll
      for (int r = 0; r < Shape::kThreadRows; ++r) {
        if (r % kTogether == 0 && r * Shape::kTeams > Shape::kLeastRows &&
            r * Shape::kTeams >= rows) {
          break;
        }
        if (r + 1 < Shape::kThreadRows) Reader::LoadX(x, d, r + 1, row[(r + 1) % 2]);
          // To and fro, so that what is read last is read again.
#pragma unroll
        for (int i = 0; i < kLaneGranule * kColumns; ++i) {
          const int l = i / kColumns;
          const int j = l % 2 == 0 ? i % kColumns : kColumns - 1 - i % kColumns;
          float& s = sum[r * kColumns + j];
          s = MultiplyAdd(row[r % 2][l], b[j][l], s);
        }
      }
    }
    constexpr int kOn = kUnrolled * Shape::kLanes;  // granules
#pragma unroll
    for (uint32_t& from : matrix) from += 4 * kOn * (Shape::kAlong ? kLaneGranule : Shape::kPitch);
    x += 4 * kOn * kLaneGranule;
  }
}

// A chunk of a strip of one of the matrices.
struct BatchChunk {
  int batch;
  int strip;
  int number;
  bool last;
  int begin;
  int count;  // products

  __device__ __forceinline__ int Rounds() const { return (count + kLaneRound - 1) / kLaneRound; }
};

// Calls body(chunk) for what is the block's, in order.
template <int kStrip, typename Body>
__device__ __forceinline__ void ForEachChunk(const SkinnyGemm& g, const Body& body) {
  const auto strips = static_cast<int>((g.length + kStrip - 1) / kStrip);
  const int items = strips * static_cast<int>(g.p.batch_count);
  const auto k = static_cast<int>(g.p.k);
#pragma unroll 1
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const int batch = item / strips;
    const int strip = item - batch * strips;
    const int length = strip < g.whole_strips ? k : static_cast<int>(g.chunk_length);
#pragma unroll 1
    for (int begin = 0, number = 0; begin < k; begin += length, ++number) {
      body(BatchChunk{batch, strip, number, k - begin <= length, begin, min(length, k - begin)});
    }
  }
}

// The ring: of each stage a barrier says that it is full, another that it is free.
template <typename Shape>
struct BatchRing {
  uint32_t shared;
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ explicit BatchRing(uint32_t at) : shared(at) {}
  __device__ __forceinline__ uint32_t Stage() const { return shared + slot * Shape::kStageBytes; }
  __device__ __forceinline__ uint32_t Full() const {
    return shared + Shape::kBarriersAt + 8 * slot;
  }
  __device__ __forceinline__ uint32_t Free() const { return Full() + 8 * Shape::kStages; }
  __device__ __forceinline__ void Next() {
    if (++slot == Shape::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// Copies a round of x's rows, of which `left` products exist, an element at a time along what is
// contiguous in memory. Zeros come behind those, as far as a warp reads that has some of them.
template <typename Shape>
__device__ __forceinline__ void CopyBatchX(const SkinnyGemm& g, const float* from, int left,
                                           int copier, uint32_t to) {
  const auto rows = static_cast<int>(g.rows);
  const int read = (left + kLaneBlock - 1) / kLaneBlock * kLaneBlock;
  if (g.x_column == 1) {
#pragma unroll
    for (int l = copier; l < kLaneRound; l += kBatchCopiers) {
      if (l >= read) break;
      const bool any = l < left;
      const float* next = any ? from + l : g.x;
      const int64_t stride = any ? g.x_row : 0;
      uint32_t row = to + 4 * l;
#pragma unroll 8
      for (int r = 0; r < rows; ++r) {
        CopyAsync4(row, next, any ? 4 : 0);
        next += stride;
        row += 4 * Shape::kXPitch;
      }
    }
    return;
  }
  constexpr int kWide = 16;
  constexpr int kDeep = kBatchCopiers / kWide;
  const int l0 = copier / kWide;
#pragma unroll 1
  for (int r = copier % kWide; r < rows; r += kWide) {
    const float* next = from + r * g.x_row + l0 * g.x_column;
    const uint32_t row = to + 4 * (r * Shape::kXPitch + l0);
    if (left >= kLaneRound) {
#pragma unroll
      for (int l = 0; l < kLaneRound; l += kDeep) {
        CopyAsync4(row + 4 * l, next);
        next += kDeep * g.x_column;
      }
    } else {
#pragma unroll 1
      for (int l = l0; l < read; l += kDeep) {
        CopyAsync4(row + 4 * (l - l0), l < left ? next : g.x, l < left ? 4 : 0);
        next += kDeep * g.x_column;
      }
    }
  }
}

template <typename Shape>
__device__ __forceinline__ void CopyBatch(const SkinnyGemm& g, const CUtensorMap* maps,
                                          uint32_t shared, int copier) {
  constexpr int kBoxBytes = 4 * Shape::kQuarter;
  BatchRing<Shape> ring(shared);
  ForEachChunk<Shape::kStrip>(g, [&](const BatchChunk& chunk) {
    const int matrix = g.box_step_matrix != 0 ? chunk.batch : 0;
    const CUtensorMap* map = maps + matrix % kBatchPhases * kSkinnyQuarters;
    const int j = chunk.strip * Shape::kStrip;
    const float* x = g.x + chunk.batch * g.x_batch + chunk.begin * g.x_column;
    const int rounds = chunk.Rounds();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      BarrierWait(ring.Free(), ring.parity ^ 1);
      if (copier == 0) {
        BarrierArriveExpecting(ring.Full(), 4 * Shape::kMatrixElements);
#pragma unroll
        for (int box = 0; box < Shape::kBoxes * kSkinnyQuarters; ++box) {
          const int k = chunk.begin + round * kLaneRound +
                        box / kSkinnyQuarters * (kLaneRound / Shape::kBoxes);
          CopyBox(ring.Stage() + box * kBoxBytes, map + box % kSkinnyQuarters,
                  Shape::kAlong ? k : j, (Shape::kAlong ? j : k) / kSkinnyQuarters,
                  matrix / kBatchPhases, ring.Full());
        }
      }
      __syncwarp();
      CopyBatchX<Shape>(g, x + round * kLaneRound * g.x_column, chunk.count - round * kLaneRound,
                        copier, ring.Stage() + 4 * Shape::kMatrixElements);
      BarrierArriveAfterCopies(ring.Full());
      ring.Next();
    }
  });
}

template <typename Shape>
__device__ __forceinline__ void MultiplyBatch(const SkinnyGemm& g, uint32_t shared, int warp) {
  constexpr int kColumns = Shape::kThreadColumns;
  constexpr int kStrip = Shape::kStrip;
  // After lanes are added.
  constexpr int kKeptRows = Shape::kThreadRows / Shape::kLanes;
  // Fours that a thread adds up.
  constexpr int kSums = Shape::kRows * Shape::kFours;
  constexpr int kTurns = (kSums + kSkinnyThreads - 1) / kSkinnyThreads;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread % Shape::kGroups;
  const int lane = thread / Shape::kGroups % Shape::kLanes;
  const int team = thread % 32 / (Shape::kGroups * Shape::kLanes);
  const BatchReader<Shape> reader(warp, lane, group, team);
  const auto rows = static_cast<int>(g.rows);
  BatchRing<Shape> ring(shared);
  const auto release = [&] {
    __syncwarp();
    if (thread % 32 == 0) BarrierArrive(ring.Free());
    ring.Next();
  };
  int which = 0;  // of two places for sums
  float totals[kTurns][4];
  ForEachChunk<kStrip>(g, [&](const BatchChunk& chunk) {
    const int j0 = chunk.strip * kStrip;
    SkinnyShifts shifts;
#pragma unroll
    for (int l = 0; l < BatchReader<Shape>::kBases; ++l) {
      const float* row = g.matrix + chunk.batch * g.matrix_batch +
                         (Shape::kAlong ? group % 4 * g.matrix_row : l * g.matrix_column);
      shifts.bytes[l] = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) % 16);
    }
    float sum[Shape::kValues];
#pragma unroll
    for (float& value : sum) value = 0;
    const int rounds = chunk.Rounds();
#pragma unroll 1
    for (int round = 0;; ++round) {
      BarrierWait(ring.Full(), ring.parity);
      if (round * kLaneRound + warp * kLaneBlock < chunk.count) {
        MultiplyStage<Shape>(ring.Stage(), reader, shifts, rows, sum);
      }
      if (round + 1 == rounds) break;
      release();
    }
    const int first_row =
        AddLanes<Shape::kLanes / 2, Shape::kGroups, Shape::kValues>(lane, sum) / kColumns;
    // The warps meet, while stages of what is next are on their way.
    const uint32_t sums = Shape::kSumsApart
                              ? shared + Shape::kSumsAt + which * (kLaneWarps * Shape::kSumBytes)
                              : ring.Stage();
    if constexpr (Shape::kSumsApart) {
      release();
      which ^= 1;
    } else {
      NamedBarrier<1, kSkinnyThreads>();
    }
    const uint32_t mine = sums + warp * Shape::kSumBytes;
#pragma unroll
    for (int i = 0; i < kKeptRows; ++i) {
      const int r = (first_row + i) * Shape::kTeams + team;
#pragma unroll
      for (int j = 0; j < kColumns; j += 4) {
        const float* four = &sum[i * kColumns + j];
        StoreShared4(mine + Shape::SumAt(r, j / 4 * Shape::kGroups + group),
                     make_float4(four[0], four[1], four[2], four[3]));
      }
    }
    if constexpr (!Shape::kSumsApart) OrderBoxesBehindAccesses();
    NamedBarrier<1, kSkinnyThreads>();
    // Neighbours in D beside each other.
    const auto row_of = [&](int s) { return g.x_is_a ? s / Shape::kFours : s % Shape::kRows; };
    const auto four_of = [&](int s) { return g.x_is_a ? s % Shape::kFours : s / Shape::kRows; };
#pragma unroll
    for (int t = 0; t < kTurns; ++t) {
      const int s = thread + t * kSkinnyThreads;
      if (s >= kSums) break;
      const uint32_t from = sums + Shape::SumAt(row_of(s), four_of(s));
      SkinnyTotals<4> total;
      total.Load(from);
#pragma unroll
      for (int w = 1; w < kLaneWarps; ++w) {
        SkinnyTotals<4> more;
        more.Load(from + w * Shape::kSumBytes);
        total.Add(more);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        totals[t][e] = chunk.number == 0 ? total.of[e] : __fadd_rn(totals[t][e], total.of[e]);
      }
    }
    if constexpr (!Shape::kSumsApart) {
      // Loads from the stage may be under way still; no box may come in beneath them.
      OrderBoxesBehindAccesses();
      release();
    }
    if (!chunk.last) return;
#pragma unroll
    for (int t = 0; t < kTurns; ++t) {
      const int s = thread + t * kSkinnyThreads;
      const int r = row_of(s);
      if (s >= kSums || r >= rows) break;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t j =
            j0 + Shape::LineOf(four_of(s) / Shape::kGroups * 4 + e, four_of(s) % Shape::kGroups);
        if (j < g.length) {
          StoreElement(g.p, chunk.batch, g.x_is_a ? r : j, g.x_is_a ? j : r, totals[t][e]);
        }
      }
    }
  });
}

template <int kRows, bool kAlong>
__device__ __forceinline__ void SkinnyBatchMultiply(const SkinnyGemm& g, const CUtensorMap* maps) {
  using Shape = BatchShape<kRows, kAlong>;
  extern __shared__ __align__(1024) float ring[];
  const uint32_t shared = SharedAddress(ring);
  LetKernelAfterStart();
  if (threadIdx.x == 0) {
    BatchRing<Shape> barriers(shared);
    for (int s = 0; s < Shape::kStages; ++s, barriers.Next()) {
      BarrierInit(barriers.Full(), 1 + kBatchCopiers);
      BarrierInit(barriers.Free(), kLaneWarps);
    }
    BarrierInitFence();
  }
  __syncthreads();
  WaitForKernelBefore();
  if (threadIdx.x >= kSkinnyThreads) {
    ShrinkRegistersTo<kBatchCopierRegisters>();
    CopyBatch<Shape>(g, maps, shared, static_cast<int>(threadIdx.x) - kSkinnyThreads);
  } else {
    GrowRegistersTo<kBatchRegisters>();
    MultiplyBatch<Shape>(g, shared, static_cast<int>(threadIdx.x) / 32);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_BATCH_CUH_
