// How the warps that share a tile, a quarter of k each, and the blocks of a cluster, a chunk of k
// each, add their sums and store them.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_MEET_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_MEET_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_pieces.cuh"
#include "kernels/families/ffma_store.cuh"
#include "kernels/families/ffma_tile.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/warpgroup.cuh"

namespace gemm {

__device__ __forceinline__ float4 Add4(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z),
                     __fadd_rn(a.w, b.w));
}

// Where sums lie in the ring: [slice][group][lane], a group being four columns of a row of each
// thread.
template <FfmaKernel kKernel>
struct FfmaMeeting {
  using Layout = FfmaLayout<kKernel>;
  static constexpr int kGroupsARow = Layout::kColumns / 4;
  static constexpr int kGroups = Layout::kRows * kGroupsARow;
  static constexpr int kSliceBytes = kGroups * 512;
  static_assert(Layout::kTileWarps == 1, "a warp sums a quarter of a tile");
  static_assert(Layout::kStageBytes * Layout::kStages >= kKernel.shape.slices * kSliceBytes,
                "the sums fit the ring");

  // A group's row and column from those of the thread.
  __device__ __forceinline__ static int RowOf(int group) {
    const int i = group / kGroupsARow;
    return i / 4 * Layout::kRowGroup + i % 4;
  }
  __device__ __forceinline__ static int ColumnOf(int group) {
    return group % kGroupsARow * Layout::kColumnGroup;
  }
};

// Adds the quarters of a tile and stores them where rows of D are not 16-byte aligned: 32
// neighbouring floats of the ring at a time, 32 of a row or 16 of two. As threads hold them they
// would go into 24 pieces of lines at a time.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreMet(const FfmaGemm& g, const FfmaPiece& piece,
                                             uint32_t ring, const FfmaPlace<kKernel>& at) {
  using Layout = FfmaLayout<kKernel>;
  using Meeting = FfmaMeeting<kKernel>;
  constexpr int kSlices = kKernel.shape.slices;
  constexpr int kRowsAtOnce = 8 / Layout::kLaneColumns;
  // The first element's owner is lane at.lane / 4.
  const int64_t row0 =
      int64_t{piece.tile_m} * Layout::kTileM + at.lane / 4 / Layout::kLaneColumns * 4;
  const int64_t column0 =
      int64_t{piece.tile_n} * Layout::kTileN + at.lane % (4 * Layout::kLaneColumns);
  const StridedGemm<float>& p = g.p;
#pragma unroll 1
  for (int e = 0; e < Meeting::kGroups / kSlices; ++e) {
    const int group = at.slice * (Meeting::kGroups / kSlices) + e;
    const uint32_t from = ring + group * 512 + at.lane * 4;
    const int64_t row = row0 + Meeting::RowOf(group);
    const int64_t column = column0 + Meeting::ColumnOf(group);
    float total[4];
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      total[h] = LoadShared(from + h * 128);
#pragma unroll
      for (int s = 1; s < kSlices; ++s) {
        total[h] = __fadd_rn(total[h], LoadShared(from + s * Meeting::kSliceBytes + h * 128));
      }
    }
    if (column >= p.n) continue;
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      const int64_t mine = row + 4 * kRowsAtOnce * h;
      if (mine < p.m) FfmaStoreOne(g, piece.batch, mine, column, total[h]);
    }
  }
}

// Adds the quarters of a tile in the ring, which nothing writes any more: a block whose warps share
// tiles has one piece of work. The blocks of a cluster have a chunk of the same tile each; then
// each stores a part of the tile, added in the order of the chunks.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaMeet(
    const FfmaGemm& g, const FfmaPiece& piece, uint32_t ring,
    const float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
  using Meeting = FfmaMeeting<kKernel>;
  constexpr int kSlices = kKernel.shape.slices;
  constexpr int kGroups = Meeting::kGroups;
  const FfmaPlace<kKernel> at(ThreadIndexAgain());
  const uint32_t mine = ring + at.lane * 16;
  NamedBarrier<1, 32 * Layout::kConsumers>();
#pragma unroll
  for (int i = 0; i < Layout::kRows; ++i) {
#pragma unroll
    for (int q = 0; q < Meeting::kGroupsARow; ++q) {
      StoreShared4(
          mine + at.slice * Meeting::kSliceBytes + (i * Meeting::kGroupsARow + q) * 512,
          make_float4(Multiply(g.one, sum[i][4 * q]), Multiply(g.one, sum[i][4 * q + 1]),
                      Multiply(g.one, sum[i][4 * q + 2]), Multiply(g.one, sum[i][4 * q + 3])));
    }
  }
  NamedBarrier<1, 32 * Layout::kConsumers>();

  const int64_t row0 = int64_t{piece.tile_m} * Layout::kTileM;
  const int64_t column0 = int64_t{piece.tile_n} * Layout::kTileN;
  const int blocks = ClusterSize();
  if (blocks == 1 && piece.part < 0 && !g.store_16) {
    FfmaStoreMet<kKernel>(g, piece, ring, at);
    return;
  }
#pragma unroll 4
  for (int e = 0; e < kGroups / kSlices; ++e) {
    const int group = at.slice * (kGroups / kSlices) + e;
    float4 total = LoadShared4(mine + group * 512);
#pragma unroll
    for (int s = 1; s < kSlices; ++s) {
      total = Add4(total, LoadShared4(mine + s * Meeting::kSliceBytes + group * 512));
    }
    const int64_t row = row0 + at.row + Meeting::RowOf(group);
    const int64_t column = column0 + at.column + Meeting::ColumnOf(group);
    if (blocks > 1) {
      StoreShared4(mine + group * 512, total);
    } else if (piece.part < 0) {
      FfmaStoreFour(g, piece.batch, row, column, total);
    } else if (g.sharers > 0) {
      *reinterpret_cast<float4*>(g.partial +
                                 (piece.part * Layout::kTileM + at.row + Meeting::RowOf(group)) *
                                     Layout::kTileN +
                                 at.column + Meeting::ColumnOf(group)) = total;
    } else if (row < g.p.m && column < g.p.n) {
      *reinterpret_cast<float4*>(g.partial + (piece.part * g.p.m + row) * g.partial_pitch +
                                 column) = total;
    }
  }
  if (blocks == 1) return;

  ClusterArrive();
  ClusterWait();
  for (int group = ClusterRank() * kSlices + at.slice; group < kGroups; group += kSlices * blocks) {
    float4 total = LoadFromBlock4(mine + group * 512, 0);
#pragma unroll 4
    for (int rank = 1; rank < blocks; ++rank) {
      total = Add4(total, LoadFromBlock4(mine + group * 512, rank));
    }
    FfmaStoreFour(g, piece.batch, row0 + at.row + Meeting::RowOf(group),
                  column0 + at.column + Meeting::ColumnOf(group), total);
  }
  // None may end while others still read what it has.
  ClusterArrive();
  ClusterWait();
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_MEET_CUH_
