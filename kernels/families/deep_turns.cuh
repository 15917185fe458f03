// How blocks of the deep family take chunks in turn, where a batch has more of them than there are
// multiprocessors: a block begins once, and what brings and turns stages goes on to the next chunk
// while the one before is summed.
//
// The chunks are short, so that adding the sums of ways that are different warps' would take as
// long as the sums. Here a thread has 4 x 4 results in all four ways: it waits for no other one,
// and leaves the chunk's sums in the workspace itself. Two groups of four warps have 32 of a tile's
// rows each. Of tiles that have no more they have two ways each, and the first hands its sums to
// the other.

#ifndef GEMMD_KERNELS_FAMILIES_DEEP_TURNS_CUH_
#define GEMMD_KERNELS_FAMILIES_DEEP_TURNS_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/deep_feed.cuh"
#include "kernels/families/deep_gemm.h"
#include "kernels/families/deep_multiply.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace gemm {

using DeepTurnRing = DeepRingOf<kDeepTurnStages>;
inline constexpr int kDeepGroupThreads = 32 * kDeepWarps / 2;

// Calls body(number, piece) for each of the block's pieces.
template <typename Body>
__device__ __forceinline__ void ForEachDeepPiece(const DeepGemm& g, const Body& body) {
#pragma unroll 1
  for (auto number = static_cast<int>(blockIdx.x); number < g.pieces;
       number += static_cast<int>(gridDim.x)) {
    body(number, DeepPiece(g, number));
  }
}

// A thread's 4 x 4 results of half a tile, in all ways or in two of them.
template <int kWays>
class DeepOwnWays {
 public:
  __device__ __forceinline__ DeepOwnWays(const DeepGemm& g, int thread)
      : group_(thread / kDeepGroupThreads),
        turned_a_(g.a.along ? 16 : 0),
        turned_b_(g.b.along ? 16 : 0) {
    const DeepPlace place(thread % 32);  // in 32 rows and 16 columns
    const int warp = thread % kDeepGroupThreads / 32;
    const int half = kHalfRows ? group_ : 0;
    row_ = half * kDeepNarrow + 4 * place.tx;
    column_ = 16 * warp + 4 * place.ty;
    quad_ = warp / 2 * 32 + DeepPlace::QuadAt(4 * half, warp % 2) + thread % 32;
  }

  __device__ __forceinline__ void Sum(int stages, DeepTurnRing* ring, uint32_t ready) {
#pragma unroll
    for (int e = 0; e < kWays * 16; ++e) sum_[e / 16][e / 4 % 4][e % 4] = 0;
    // From the group's first way on. What is turned has its quads elsewhere: DeepUnit.
    const int first = kHalfRows ? 0 : group_ * kGranules;
    const uint32_t at_a = first * kGranuleBytes + 4 * row_;
    const uint32_t at_b = kDeepOperandBytes + first * kGranuleBytes + 4 * column_;
    const uint32_t flip_a = first * turned_a_;
    const uint32_t flip_b = first * turned_b_;
#pragma unroll 1
    for (; stages > 0; --stages) {
      BarrierWait(ring->Full() + ready, ring->parity);
#pragma unroll
      for (int granule = 0; granule < kGranules; ++granule) {
        const uint32_t from_a =
            ring->Stage() + granule * kGranuleBytes + (at_a ^ flip_a ^ (granule * turned_a_));
        const uint32_t from_b =
            ring->Stage() + granule * kGranuleBytes + (at_b ^ flip_b ^ (granule * turned_b_));
#pragma unroll
        for (int l = 0; l < kLaneGranule; ++l) {
          Add(LoadShared4(from_a + l * (4 * kDeepTile)), LoadShared4(from_b + l * (4 * kDeepTile)),
              sum_[granule * kLaneGranule / kDeepBlock]);
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) BarrierArrive(ring->Empty());
      ring->GoOn();
    }
  }

  // Adds the ways in order. False in the group that has handed its sums over.
  __device__ __forceinline__ bool Meet(uint32_t handed) {
#pragma unroll
    for (int i = 0; i < 4; ++i) total_[i] = Four(sum_[0][i]);
    if constexpr (!kHalfRows) {
      handed += 16 * (threadIdx.x % kDeepGroupThreads);
      if (group_ == 0) {
        AddFrom(1);
        WaitToHandOver();
#pragma unroll
        for (int i = 0; i < 4; ++i) StoreShared4(handed + 16 * kDeepGroupThreads * i, total_[i]);
        asm volatile("bar.arrive 4, %0;" ::"n"(2 * kDeepGroupThreads) : "memory");
        return false;
      }
      asm volatile("bar.sync 4, %0;" ::"n"(2 * kDeepGroupThreads) : "memory");
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total_[i] = AddFours(LoadShared4(handed + 16 * kDeepGroupThreads * i), total_[i]);
      }
      LetHandOver();
    }
    AddFrom(1);
    return true;
  }
  // The second group lets the first once before there is anything.
  __device__ __forceinline__ static void WaitToHandOver() {
    asm volatile("bar.sync 3, %0;" ::"n"(2 * kDeepGroupThreads) : "memory");
  }
  __device__ __forceinline__ static void LetHandOver() {
    asm volatile("bar.arrive 3, %0;" ::"n"(2 * kDeepGroupThreads) : "memory");
  }

  // To a piece's place in the workspace.
  __device__ __forceinline__ void Store(const DeepGemm& g, const DeepPiece& piece,
                                        int number) const {
    if (piece.column + column_ >= g.b.lines) return;
    auto* to = reinterpret_cast<float4*>(g.partial) + int64_t{number} * g.quads + quad_;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (piece.row + row_ + i >= g.a.lines) return;
      __stcg(to + DeepPlace::QuadAt(i, 0), total_[i]);
    }
  }

  __device__ __forceinline__ int group() const { return group_; }

 private:
  static constexpr bool kHalfRows = kWays == kDeepWays;
  static constexpr int kGranules = kWays * kDeepBlock / kLaneGranule;
  static constexpr int kGranuleBytes = kLaneGranule * 4 * kDeepTile;

  __device__ __forceinline__ void AddFrom(int first) {
#pragma unroll
    for (int way = first; way < kWays; ++way) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[i] = AddFours(total_[i], Four(sum_[way][i]));
    }
  }
  __device__ __forceinline__ static float4 Four(const float (&from)[4]) {
    return make_float4(from[0], from[1], from[2], from[3]);
  }
  __device__ __forceinline__ static void Add(float4 a4, float4 b4, float (&sum)[4][4]) {
    const float a[] = {a4.x, a4.y, a4.z, a4.w};
    const float b[] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int turn = 0; turn < 4; ++turn) {
        const int j = i % 2 != 0 ? 3 - turn : turn;
        sum[i][j] = MultiplyAdd(a[i], b[j], sum[i][j]);
      }
    }
  }

  int group_;
  int turned_a_;
  int turned_b_;
  int row_;
  int column_;
  int quad_;
  float sum_[kWays][4][4];
  float4 total_[4];
};

// What the warps that multiply do.
template <int kWays>
__device__ __forceinline__ void DeepSumInTurn(const DeepGemm& g, DeepTurnRing ring) {
  const uint32_t ready = g.a.along || g.b.along ? ring.Turned() - ring.Full() : 0;
  const uint32_t handed = ring.base + static_cast<uint32_t>(kDeepHandedAt);
  DeepOwnWays<kWays> sums(g, static_cast<int>(threadIdx.x));
  if (kWays < kDeepWays && sums.group() == 1) sums.LetHandOver();
  // What was before this kernel may read the workspace still.
  WaitForKernelBefore();
  ForEachDeepPiece(g, [&](int number, const DeepPiece& piece) {
    sums.Sum(piece.stages, &ring, ready);
    if (sums.Meet(handed)) sums.Store(g, piece, number);
  });
  // As often as it was let.
  if (kWays < kDeepWays && sums.group() == 0) sums.WaitToHandOver();
}

// The kernel's body. Warps have the tasks that they have in DeepMultiply.
__device__ __forceinline__ void DeepTakeTurns(const DeepGemm& g, bool by_boxes,
                                              const CUtensorMap* map_a, const CUtensorMap* map_b) {
  extern __shared__ __align__(1024) float shared_raw[];
  DeepTurnRing ring;
  ring.base = SharedAddress(shared_raw);
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  if (thread == 32 * kDeepWarps) {
    DeepTurnRing each = ring;
    for (int s = 0; s < kDeepTurnStages; ++s) {
      BarrierInit(each.Full(), by_boxes ? 1 : 32 * kDeepCopiers);
      BarrierInit(each.Turned(), 32 * kDeepTurners);
      BarrierInit(each.Empty(), kDeepWarps);
      each.GoOn();
    }
    BarrierInitFence();
  }
  __syncthreads();
  if (warp >= kDeepWarps + kDeepTurners) {
    const int mine = thread - 32 * (kDeepWarps + kDeepTurners);
    if (by_boxes && mine > 0) return;
    WaitForKernelBefore();
    if (mine == 0) LetKernelAfterStart();
    ring.parity = 1;
    ForEachDeepPiece(g, [&](int /*number*/, const DeepPiece& piece) {
      if (by_boxes) {
        for (int s = 0; s < piece.stages; ++s) DeepAskForBoxes(g, piece, s, map_a, map_b, &ring);
      } else {
        DeepFeedCopies(g, piece, mine, &ring);
      }
    });
    WaitForCopies();
  } else if (warp >= kDeepWarps) {
    ForEachDeepPiece(g, [&](int /*number*/, const DeepPiece& piece) {
      DeepTurnWhatIsAlong(g, piece.stages, thread - 32 * kDeepWarps, &ring);
    });
  } else if (g.quads < kDeepTileResults / 4) {
    DeepSumInTurn<kDeepWays / 2>(g, ring);
  } else {
    DeepSumInTurn<kDeepWays>(g, ring);
  }
}

// The second pass behind it: a block adds the chunks of 32 quads of results, whose loads 8 threads
// share. What does not exist was not left.
inline constexpr int kDeepTurnSumThreads = 256;
inline constexpr int kDeepTurnSumQuads = 32;

__device__ __forceinline__ void DeepAddTurns(const DeepGemm& g, float4* sums) {
  constexpr int kQuads = kDeepTurnSumQuads;
  constexpr int kAcross = kDeepTurnSumThreads / kQuads;
  constexpr int kHeld = kDeepChunkLanes / kAcross;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto block = static_cast<int>(blockIdx.x);
  const bool narrow = g.quads < kDeepTileResults / 4;
  constexpr int kSlices = kDeepTileResults / 4 / kQuads;
  const int tile = narrow ? block / (kSlices / 2) : block / kSlices;
  const int first = (narrow ? block % (kSlices / 2) : block % kSlices) * kQuads;
  const int number = tile * g.chunks;
  const DeepPiece piece(g, number);
  const auto exists = [&](int result) {
    int row = 0;
    int column = 0;
    DeepPlace::Find(4 * first + result, &row, &column);
    return piece.row + row < g.a.lines && piece.column + column < g.b.lines;
  };
  const int quad = thread % kQuads;
  const int across = thread / kQuads;
  const auto* from =
      reinterpret_cast<const float4*>(g.partial) + int64_t{number} * g.quads + first + quad;
  const bool mine = exists(4 * quad);
  // Some block has results, and waits; so none that comes after this kernel begins too early.
  if (!__syncthreads_or(mine)) return;
  WaitForKernelBefore();
  LetKernelAfterStart();
  if (mine) {
    float4 sum[kHeld];
#pragma unroll 1
    for (int before = 0; before < g.chunks; before += kDeepChunkLanes) {
      float4 each[kHeld];
#pragma unroll
      for (int h = 0; h < kHeld; ++h) {
        const int chunk = before + across + h * kAcross;
        if (chunk < g.chunks) each[h] = __ldcg(from + int64_t{chunk} * g.quads);
      }
#pragma unroll
      for (int h = 0; h < kHeld; ++h) {
        if (before == 0) {
          sum[h] = each[h];
        } else if (before + across + h * kAcross < g.chunks) {
          sum[h] = AddFours(sum[h], each[h]);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeld; ++h) sums[(across + h * kAcross) * kQuads + quad] = sum[h];
  }
  __syncthreads();
  if (thread >= 4 * kQuads || !exists(thread)) return;
  const auto* elements = reinterpret_cast<const float*>(sums) + thread;
  float total = elements[0];
  const int lanes = min(g.chunks, kDeepChunkLanes);
#pragma unroll 8
  for (int l = 1; l < lanes; ++l) total = __fadd_rn(total, elements[l * 4 * kQuads]);
  int row = 0;
  int column = 0;
  DeepPlace::Find(4 * first + thread, &row, &column);
  row += piece.row;
  column += piece.column;
  StoreElement(g.p, piece.batch, g.turned ? column : row, g.turned ? row : column, total);
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DEEP_TURNS_CUH_
