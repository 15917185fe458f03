// The machinery of the f32 kernels for Hopper: four producer warps copy tiles of A and B into a
// ring of stages in shared memory, consumer warps multiply. A consumer thread holds 8 x 16 results.
//
//                    B  depth x tile_n     a warp: kLaneRows x kLaneColumns threads. A thread's
//                    | 4 cols |..x4..|     rows are 2 groups of 4, its columns 4 groups of 4,
//   A tile_m x depth +--------+------+     groups one warp's width apart, so that its 16-byte loads
//             4 rows |  4x4   |      |     are consecutive: 2 + 4 loads for 128 multiply-adds
//             ..x2.. |        |      |
//                    +--------+------+     warps: kWarpsM x kWarpsN tiles, and kSlices of them
//                    share
//                                          each tile and take a part of k each
//
// A stage: A as [depth][tile_m + 4], B as [depth][tile_n + 4], whatever their layout in memory. The
// 4 floats of padding put the 8 x 4 floats that a producer warp transposes at once into 32
// different banks.
//
// Why this shape (H200, 2026-11-29): an FFMA reads three registers from two banks, and what is left
// of the peak after the loads is decided by register allocation. With both operands
// outer-contiguous a k-step needs 8 + 16 operand registers, and ptxas keeps a sum and its A operand
// in different banks, as long as nothing ties sums together: so the epilogue multiplies every sum
// by a scalar (alpha or `one`, an exact 1 that the compiler cannot see) before a 16-byte store. The
// unrolled body is 8 k-steps, 17 KB; 16 k-steps lost 3 %, 32 lost 17 %, to the instruction cache. A
// operand with k contiguous in shared memory, 4 k-steps a load, lost 10 % to bank conflicts.
//
// Copies are plain cp.async by 128 threads. The bulk copy engine would save 1 to 2 % of the issue
// slots when both operands are outer-contiguous, but knows no transposing and wants 16-byte rows.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_PIPELINE_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_PIPELINE_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/warpgroup.cuh"

namespace gemm {

inline constexpr int kFfmaUnroll = 8;

// Which tile a piece of work is: along m in groups of 8 tiles, so that tiles that run at the same
// time share rows of A and columns of B in the L2 cache.
struct FfmaWork {
  int64_t batch;
  int chunk;
  int tile_m;
  int tile_n;

  __device__ __forceinline__ FfmaWork(const FfmaGemm& g, int index) {
    constexpr int kGroup = 8;
    const int tiles = g.tiles_m * g.tiles_n;
    const int matrix = index / tiles;
    index -= matrix * tiles;
    batch = matrix / g.chunks;
    chunk = matrix - static_cast<int>(batch) * g.chunks;
    const int in_group = kGroup * g.tiles_n;
    const int group = index / in_group;
    index -= group * in_group;
    const int height = min(kGroup, g.tiles_m - group * kGroup);
    tile_n = index / height;
    tile_m = group * kGroup + index - tile_n * height;
  }
};

// The stages of a piece of work; of them those that are full for one slice, and its products in
// the one after those.
struct FfmaDepth {
  int stages;
  int full_stages;
  int tail;

  __device__ __forceinline__ FfmaDepth(const FfmaGemm& g, int chunk, int slice, int slice_depth) {
    const int length = min(g.chunk_length, static_cast<int>(g.p.k) - chunk * g.chunk_length);
    const int mine = max(0, min(length - slice * g.slice_length, g.slice_length));
    stages = static_cast<int>(
        (static_cast<unsigned>(min(length, g.slice_length)) + slice_depth - 1) / slice_depth);
    full_stages = mine / slice_depth;
    tail = mine % slice_depth;
  }
};

// One operand of one chunk of one tile, as producers see it.
struct FfmaSource {
  const float* from;     // element (outer 0, k 0) of the chunk's tile; always a valid address
  int64_t outer_stride;  // 1 or depth_stride is 1
  int64_t depth_stride;
  int outer;  // rows or columns inside the matrix, at most the tile's
};

template <int kConstant>
struct FfmaConstant {
  static constexpr int kValue = kConstant;
};

// Copies one stage of one operand: in each of kSlices slices, products [first, first + depth) of
// the slice's. A slice has slice_length products, but none is at or beyond `length`.
template <int kOuter, int kSlices>
__device__ __forceinline__ void FfmaCopy(const FfmaSource& x, FfmaLoad load, uint32_t to, int first,
                                         int length, int slice_length, int thread) {
  constexpr int kSliceDepth = kFfmaDepth / kSlices;
  constexpr int kPitchBytes = (kOuter + kFfmaPadding) * 4;
  // Which product a row of the stage is, and whether there is such a product.
  const auto product = [&](int row) {
    return first + row / kSliceDepth * slice_length + row % kSliceDepth;
  };
  const auto exists = [&](int row) {
    return first + row % kSliceDepth < slice_length && product(row) < length;
  };
  const bool whole = first <= slice_length - kSliceDepth &&
                     first + (kSlices - 1) * slice_length <= length - kSliceDepth;
  if (load == FfmaLoad::kDepth4) {
    // A warp takes 8 rows of the stage, which are consecutive in memory, of 4 outer at a time.
    static_assert(kFfmaDepth == 32 && kSliceDepth % 8 == 0, "8 rows a warp, in one slice");
    const int row = thread / 32 * 8 + thread % 8;
    const int outer0 = thread % 32 / 8;
    const bool in = whole || exists(row);
    const float* from = x.from + (in ? product(row) + outer0 * x.outer_stride : 0);
    to += row * kPitchBytes + outer0 * 4;
    const int64_t step = 4 * x.outer_stride;
    if (x.outer == kOuter) {
      const uint32_t bytes = in ? 4 : 0;
#pragma unroll 8
      for (int g = 0; g < kOuter / 4; ++g) {
        CopyAsync4(to + g * 16, in ? from : x.from, bytes);
        from += step;
      }
    } else {
#pragma unroll 1
      for (int g = 0; g < kOuter / 4; ++g) {
        const bool inside = in && outer0 + g * 4 < x.outer;
        CopyAsync4(to + g * 16, inside ? from : x.from, inside ? 4 : 0);
        from += step;
      }
    }
    return;
  }
  // Outer contiguous: threads along it, then along the rows, kRows of them a pass. From one pass to
  // the next the address goes on by a constant, or jumps to the next slice.
  const auto rows = [&](auto rows_constant, int row0, const float* base, auto copy) {
    constexpr int kRows = decltype(rows_constant)::kValue;
    static_assert(kFfmaDepth % kRows == 0, "whole passes");
    constexpr int kPasses = kFfmaDepth / kRows;
    if (!whole) {
#pragma unroll 1
      for (int row = 0; row < kFfmaDepth; row += kRows) {
        const bool in = exists(row0 + row);
        copy(row, in ? base + product(row0 + row) * x.depth_stride : x.from, in);
      }
      return;
    }
    const float* from = base + product(row0) * x.depth_stride;
    constexpr int kPassesASlice = kRows < kSliceDepth ? kSliceDepth / kRows : 1;
    constexpr int kSlicesAPass = kRows < kSliceDepth ? 1 : kRows / kSliceDepth;
    const int64_t step = kRows * x.depth_stride;
    const int64_t jump =
        (kSlicesAPass * slice_length - (kPassesASlice - 1) * kRows) * x.depth_stride;
#pragma unroll 8
    for (int pass = 0; pass < kPasses; ++pass) {
      copy(pass * kRows, from, true);
      from += (pass + 1) % kPassesASlice != 0 || kSlices == 1 ? step : jump;
    }
  };
  if (load == FfmaLoad::kOuter16) {
    constexpr int kPieces = kOuter / 4;
    const int piece = thread % kPieces;
    const int row0 = thread / kPieces;
    const uint32_t inside = static_cast<uint32_t>(4 * min(4, max(0, x.outer - 4 * piece)));
    to += row0 * kPitchBytes + piece * 16;
    rows(FfmaConstant<kFfmaProducers / kPieces>(), row0, inside != 0 ? x.from + 4 * piece : x.from,
         [&](int row, const float* from, bool in) {
           CopyAsync16(to + row * kPitchBytes, from, in ? inside : 0);
         });
  } else {
    constexpr int kRows = kOuter < kFfmaProducers ? kFfmaProducers / kOuter : 1;
    constexpr int kColumns = kOuter < kFfmaProducers ? 1 : kOuter / kFfmaProducers;
    const int row0 = thread / (kFfmaProducers / kRows);
    const int column = thread % (kFfmaProducers / kRows);
    to += row0 * kPitchBytes + column * 4;
    // What is outside reads nothing, from an address inside.
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const bool inside = column + c * kFfmaProducers < x.outer;
      rows(FfmaConstant<kRows>(), row0, inside ? x.from + column + c * kFfmaProducers : x.from,
           [&](int row, const float* from, bool in) {
             CopyAsync4(to + row * kPitchBytes + c * kFfmaProducers * 4, from,
                        in && inside ? 4 : 0);
           });
    }
  }
}

// One k-step of a thread. Columns outside, rows in a serpentine: each multiply-add shares an
// operand with the one before, which the register file's reuse cache holds.
__device__ __forceinline__ void FfmaStep(float (&sum)[kFfmaRows][kFfmaColumns],
                                         const float (&a)[kFfmaRows],
                                         const float (&b)[kFfmaColumns]) {
#pragma unroll
  for (int j = 0; j < kFfmaColumns; ++j) {
#pragma unroll
    for (int r = 0; r < kFfmaRows; ++r) {
      const int i = (j & 1) != 0 ? kFfmaRows - 1 - r : r;
      sum[i][j] = MultiplyAdd(a[i], b[j], sum[i][j]);
    }
  }
}

// A shape's numbers as constants: device code cannot call FfmaShape's functions.
template <FfmaShape kShape>
struct FfmaLayout {
  static constexpr int kTileM = kShape.tile_m();
  static constexpr int kTileN = kShape.tile_n();
  static constexpr int kLaneColumns = kShape.lane_columns();
  static constexpr int kStageBytes = kShape.stage_bytes();
  static constexpr int kBytesA = kShape.bytes_a();
  static constexpr int kSliceDepth = kShape.slice_depth();
  static constexpr int kPitchA = kShape.pitch_a() * 4;  // bytes
  static constexpr int kPitchB = kShape.pitch_b() * 4;
  static constexpr int kConsumers = kShape.consumer_warps();
};

// The thread index read anew: what is derived from it after the main loop does not take up
// registers in it.
__device__ __forceinline__ int ThreadIndexAgain() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// A consumer thread's slice of k, and its first row and column in the tile.
template <FfmaShape kShape>
struct FfmaPlace {
  int thread;
  int slice;
  int row;
  int column;

  __device__ __forceinline__ explicit FfmaPlace(int of_thread) : thread(of_thread) {
    constexpr int kLaneColumns = FfmaLayout<kShape>::kLaneColumns;
    constexpr int kWarps = kShape.warps_m * kShape.warps_n;
    const int warp = thread / 32;
    const int lane = thread % 32;
    slice = warp / kWarps;
    row = warp % kWarps % kShape.warps_m * kFfmaRows * kShape.lane_rows + lane / kLaneColumns * 4;
    column = warp % kWarps / kShape.warps_m * kFfmaColumns * kLaneColumns + lane % kLaneColumns * 4;
  }
};

// The kernel's body.
template <FfmaShape kShape, int kConsumerRegisters, int kProducerRegisters>
__device__ __forceinline__ void FfmaMultiply(const FfmaGemm& g) {
  using Layout = FfmaLayout<kShape>;
  constexpr int kTileM = Layout::kTileM;
  constexpr int kTileN = Layout::kTileN;
  constexpr int kSlices = kShape.slices;
  constexpr int kStages = kShape.stages;
  constexpr int kLaneRows = kShape.lane_rows;
  constexpr int kLaneColumns = Layout::kLaneColumns;
  constexpr int kStageBytes = Layout::kStageBytes;
  constexpr int kBytesA = Layout::kBytesA;
  constexpr int kSliceDepth = Layout::kSliceDepth;
  constexpr int kPitchA = Layout::kPitchA;
  constexpr int kPitchB = Layout::kPitchB;
  constexpr int kConsumers = Layout::kConsumers;
  constexpr int kSteps = kSliceDepth / kFfmaUnroll;
  static_assert(kConsumers % 4 == 0, "registers are handed over by warp groups");
  static_assert(kSlices == 1 || kSlices == 4, "a tile is summed at once or in quarters");
  static_assert(kStages <= 8 && kSliceDepth % kFfmaUnroll == 0, "");

  extern __shared__ __align__(16) unsigned char shared_raw[];
  const uint32_t ring = SharedAddress(shared_raw);
  const uint32_t full = ring + kStageBytes * kStages;  // a barrier of 8 bytes a stage
  const uint32_t empty = full + 8 * kStages;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      BarrierInit(full + 8 * s, kFfmaProducers);
      BarrierInit(empty + 8 * s, kConsumers);
    }
  }
  __syncthreads();

  if (warp >= kConsumers) {
    ShrinkRegistersTo<kProducerRegisters>();
    const int thread = static_cast<int>(threadIdx.x) - 32 * kConsumers;
    int stage = 0;
    uint32_t parity = 1;
    for (int w = static_cast<int>(blockIdx.x); w < g.work; w += static_cast<int>(gridDim.x)) {
      const FfmaWork work(g, w);
      const int64_t row0 = int64_t{work.tile_m} * kTileM;
      const int64_t column0 = int64_t{work.tile_n} * kTileN;
      const int begin = work.chunk * g.chunk_length;
      const int length = min(g.chunk_length, static_cast<int>(g.p.k) - begin);
      const int depth = min(length, g.slice_length);
      const FfmaSource a{g.p.a + work.batch * g.p.a_batch + row0 * g.p.a_row + begin * g.p.a_column,
                         g.p.a_row, g.p.a_column,
                         static_cast<int>(min(g.p.m - row0, int64_t{kTileM}))};
      const FfmaSource b{
          g.p.b + work.batch * g.p.b_batch + column0 * g.p.b_column + begin * g.p.b_row,
          g.p.b_column, g.p.b_row, static_cast<int>(min(g.p.n - column0, int64_t{kTileN}))};
      for (int first = 0; first < depth; first += kSliceDepth) {
        BarrierWait(empty + 8 * stage, parity);
        const uint32_t to = ring + kStageBytes * stage;
        FfmaCopy<kTileM, kSlices>(a, g.load_a, to, first, length, g.slice_length, thread);
        FfmaCopy<kTileN, kSlices>(b, g.load_b, to + kBytesA, first, length, g.slice_length, thread);
        BarrierArriveAfterCopies(full + 8 * stage);
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
    // Shared memory must not be given away under copies that are on their way.
    WaitForCopies();
    return;
  }

  GrowRegistersTo<kConsumerRegisters>();
  const FfmaPlace<kShape> place(static_cast<int>(threadIdx.x));
  constexpr int kRowGroup = 4 * kLaneRows;
  constexpr int kColumnGroup = 4 * kLaneColumns;
  const uint32_t offset_a = place.slice * kSliceDepth * kPitchA + place.row * 4;
  const uint32_t offset_b = kBytesA + place.slice * kSliceDepth * kPitchB + place.column * 4;
  const auto load = [&](float(&a)[kFfmaRows], float(&b)[kFfmaColumns], uint32_t from_a,
                        uint32_t from_b) {
#pragma unroll
    for (int q = 0; q < kFfmaRows / 4; ++q) {
      const float4 v = LoadShared4(from_a + q * kRowGroup * 4);
      a[4 * q] = v.x;
      a[4 * q + 1] = v.y;
      a[4 * q + 2] = v.z;
      a[4 * q + 3] = v.w;
    }
#pragma unroll
    for (int q = 0; q < kFfmaColumns / 4; ++q) {
      const float4 v = LoadShared4(from_b + q * kColumnGroup * 4);
      b[4 * q] = v.x;
      b[4 * q + 1] = v.y;
      b[4 * q + 2] = v.z;
      b[4 * q + 3] = v.w;
    }
  };

  int stage = 0;
  uint32_t parity = 0;
  // Gives the stage to the producers, once the warp's loads from it have been issued.
  const auto hand_back = [&] {
    __syncwarp();
    if (ElectOne()) BarrierArrive(empty + 8 * stage);
  };
  const auto go_on = [&] {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  };
  for (int w = static_cast<int>(blockIdx.x); w < g.work; w += static_cast<int>(gridDim.x)) {
    float sum[kFfmaRows][kFfmaColumns];
#pragma unroll
    for (int i = 0; i < kFfmaRows; ++i) {
#pragma unroll
      for (int j = 0; j < kFfmaColumns; ++j) sum[i][j] = 0;
    }
    // Every stage is waited for and handed back, but a slice's last ones may be partly or wholly
    // empty. Products that do not exist must not be added as 0 * 0: that would turn a sum of -0
    // into +0, and the bits would differ from those of other kernels.
    float a[2][kFfmaRows];
    float b[2][kFfmaColumns];
    const FfmaDepth depth(g, FfmaWork(g, w).chunk, place.slice, kSliceDepth);
    if (depth.stages > 0) {
      BarrierWait(full + 8 * stage, parity);
      load(a[0], b[0], ring + kStageBytes * stage + offset_a,
           ring + kStageBytes * stage + offset_b);
    }
    const bool full_to_the_end = depth.full_stages == depth.stages;
    for (int left = depth.full_stages; left > 0; --left) {
      const bool wrap = stage + 1 == kStages;
      const int after = wrap ? 0 : stage + 1;
      const uint32_t after_parity = wrap ? parity ^ 1 : parity;
      uint32_t from_a = ring + kStageBytes * stage + offset_a;
      uint32_t from_b = ring + kStageBytes * stage + offset_b;
#pragma unroll 1
      for (int o = 0; o < kSteps; ++o) {
#pragma unroll
        for (int u = 0; u < kFfmaUnroll; ++u) {
          // Operands of the next k-step come in while this one is computed.
          if (u < kFfmaUnroll - 1) {
            load(a[(u + 1) & 1], b[(u + 1) & 1], from_a + (u + 1) * kPitchA,
                 from_b + (u + 1) * kPitchB);
          } else {
            if (o == kSteps - 1) {
              if constexpr (kSteps == 1) hand_back();
              if (left > 1 || !full_to_the_end) BarrierWait(full + 8 * after, after_parity);
              from_a = ring + kStageBytes * after + offset_a;
              from_b = ring + kStageBytes * after + offset_b;
            } else {
              from_a += kFfmaUnroll * kPitchA;
              from_b += kFfmaUnroll * kPitchB;
            }
            load(a[(u + 1) & 1], b[(u + 1) & 1], from_a, from_b);
          }
          FfmaStep(sum, a[u & 1], b[u & 1]);
        }
      }
      if constexpr (kSteps > 1) hand_back();
      stage = after;
      parity = after_parity;
    }
    if (!full_to_the_end) {
      const FfmaPlace<kShape> again(ThreadIndexAgain());
      const FfmaDepth rest(g, FfmaWork(g, w).chunk, again.slice, kSliceDepth);
#pragma unroll 1
      for (int l = 0; l < rest.tail; ++l) {
        FfmaStep(sum, a[0], b[0]);
        const int next = l + 1 < rest.tail ? l + 1 : l;
        load(a[0], b[0], ring + kStageBytes * stage + offset_a + next * kPitchA,
             ring + kStageBytes * stage + offset_b + next * kPitchB);
      }
#pragma unroll 1
      for (int k = rest.full_stages; k < rest.stages; ++k) {
        if (k != rest.full_stages) BarrierWait(full + 8 * stage, parity);
        hand_back();
        go_on();
      }
    }

    const FfmaPlace<kShape> at(ThreadIndexAgain());
    const FfmaWork work(g, w);
    const int64_t row0 = int64_t{work.tile_m} * kTileM + at.row;
    const int64_t column0 = int64_t{work.tile_n} * kTileN + at.column;
    const auto store4 = [&](int i, int q, float x, float y, float z, float v) {
      const int64_t row = row0 + i / 4 * kRowGroup + i % 4;
      const int64_t column = column0 + q * kColumnGroup;
      if (row >= g.p.m || column >= g.p.n) return;
      if (kSlices > 1 && g.chunks > 1) {
        const int64_t matrix = work.chunk * g.p.batch_count + work.batch;
        float* to = g.partial + (matrix * g.p.m + row) * g.partial_pitch + column;
        *reinterpret_cast<float4*>(to) = make_float4(x, y, z, v);
        return;
      }
      if (g.store_16 && column + 4 <= g.p.n) {
        float* to = g.p.d + work.batch * g.p.d_batch + row * g.p.d_row + column;
        *reinterpret_cast<float4*>(to) =
            make_float4(Multiply(g.p.alpha, x), Multiply(g.p.alpha, y), Multiply(g.p.alpha, z),
                        Multiply(g.p.alpha, v));
        return;
      }
      StoreElement(g.p, work.batch, row, column, x);
      if (column + 1 < g.p.n) StoreElement(g.p, work.batch, row, column + 1, y);
      if (column + 2 < g.p.n) StoreElement(g.p, work.batch, row, column + 2, z);
      if (column + 3 < g.p.n) StoreElement(g.p, work.batch, row, column + 3, v);
    };
    if constexpr (kSlices == 1) {
#pragma unroll
      for (int i = 0; i < kFfmaRows; ++i) {
#pragma unroll
        for (int q = 0; q < kFfmaColumns / 4; ++q) {
          store4(i, q, sum[i][4 * q], sum[i][4 * q + 1], sum[i][4 * q + 2], sum[i][4 * q + 3]);
        }
      }
    } else {
      // The quarters meet in the ring, which nothing writes any more: a block has one piece of
      // work.
      constexpr int kGroups = kFfmaRows * kFfmaColumns / 4;
      constexpr int kTileWarps = kConsumers / kSlices;
      const int this_lane = at.thread % 32;
      const int tile_warp = at.thread / 32 % kTileWarps;
      static_assert(kStageBytes * kStages >= kConsumers * kGroups * 512, "the sums fit the ring");
      const uint32_t mine = ring + (at.thread / 32 * kGroups * 32 + this_lane) * 16;
      NamedBarrier<1, 32 * kConsumers>();
#pragma unroll
      for (int i = 0; i < kFfmaRows; ++i) {
#pragma unroll
        for (int q = 0; q < kFfmaColumns / 4; ++q) {
          asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(
                           mine + (i * kFfmaColumns / 4 + q) * 512),
                       "f"(Multiply(g.one, sum[i][4 * q])), "f"(Multiply(g.one, sum[i][4 * q + 1])),
                       "f"(Multiply(g.one, sum[i][4 * q + 2])),
                       "f"(Multiply(g.one, sum[i][4 * q + 3]))
                       : "memory");
        }
      }
      NamedBarrier<1, 32 * kConsumers>();
      // Each warp of a tile adds and stores a part of it.
#pragma unroll
      for (int e = 0; e < kGroups / kSlices; ++e) {
        const int i = (at.slice * (kGroups / kSlices) + e) / (kFfmaColumns / 4);
        const int q = (at.slice * (kGroups / kSlices) + e) % (kFfmaColumns / 4);
        const uint32_t from =
            ring + ((tile_warp * kGroups + i * kFfmaColumns / 4 + q) * 32 + this_lane) * 16;
        float4 total = LoadShared4(from);
#pragma unroll
        for (int s = 1; s < kSlices; ++s) {
          const float4 v = LoadShared4(from + s * kTileWarps * kGroups * 512);
          total.x = __fadd_rn(total.x, v.x);
          total.y = __fadd_rn(total.y, v.y);
          total.z = __fadd_rn(total.z, v.z);
          total.w = __fadd_rn(total.w, v.w);
        }
        store4(i, q, total.x, total.y, total.z, total.w);
      }
      return;
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_PIPELINE_CUH_
