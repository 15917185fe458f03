// How a consumer's sums of a tile are stored.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_STORE_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_STORE_CUH_

#include <cuda_runtime.h>

#include "kernels/families/ffma_pieces.cuh"
#include "kernels/families/ffma_tile.cuh"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// A result inside D.
__device__ __forceinline__ void FfmaStoreOne(const FfmaGemm& g, int64_t batch, int64_t row,
                                             int64_t column, float sum) {
  StoreElement(g.p, batch, g.turned ? column : row, g.turned ? row : column, sum);
}

// Four results of a row, those inside D.
__device__ __forceinline__ void FfmaStoreFour(const FfmaGemm& g, int64_t batch, int64_t row,
                                              int64_t column, float4 sum) {
  const StridedGemm<float>& p = g.p;
  if (row >= p.m || column >= p.n) return;
  if (g.store_16 && column + 4 <= p.n) {
    float4 result;
    if (p.beta == 0) {
      result = make_float4(Multiply(p.alpha, sum.x), Multiply(p.alpha, sum.y),
                           Multiply(p.alpha, sum.z), Multiply(p.alpha, sum.w));
    } else {
      const float4 c =
          *reinterpret_cast<const float4*>(p.c + batch * p.c_batch + row * p.c_row + column);
      result = make_float4(MultiplyAdd(p.alpha, sum.x, Multiply(p.beta, c.x)),
                           MultiplyAdd(p.alpha, sum.y, Multiply(p.beta, c.y)),
                           MultiplyAdd(p.alpha, sum.z, Multiply(p.beta, c.z)),
                           MultiplyAdd(p.alpha, sum.w, Multiply(p.beta, c.w)));
    }
    *reinterpret_cast<float4*>(p.d + batch * p.d_batch + row * p.d_row + column) = result;
    return;
  }
  FfmaStoreOne(g, batch, row, column, sum.x);
  if (column + 1 < p.n) FfmaStoreOne(g, batch, row, column + 1, sum.y);
  if (column + 2 < p.n) FfmaStoreOne(g, batch, row, column + 2, sum.z);
  if (column + 3 < p.n) FfmaStoreOne(g, batch, row, column + 3, sum.w);
}

// Sums of a thread times `factor` to 16-byte aligned rows: those of the first `rows` rows and
// `columns` columns, a multiple of four, from the thread's first.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreWhole(
    const float (&sum)[kKernel.shape.rows][kKernel.shape.columns], float factor, float* to,
    int64_t pitch, int64_t rows, int64_t columns) {
  using Layout = FfmaLayout<kKernel>;
#pragma unroll
  for (int i = 0; i < Layout::kRows; ++i) {
    const bool exists = i / 4 * Layout::kRowGroup + i % 4 < rows;
#pragma unroll
    for (int q = 0; q < Layout::kColumns / 4; ++q) {
      if (!exists || q * Layout::kColumnGroup >= columns) continue;
      *reinterpret_cast<float4*>(to + q * Layout::kColumnGroup) =
          make_float4(Multiply(factor, sum[i][4 * q]), Multiply(factor, sum[i][4 * q + 1]),
                      Multiply(factor, sum[i][4 * q + 2]), Multiply(factor, sum[i][4 * q + 3]));
    }
    to += i % 4 != 3 ? pitch : (Layout::kRowGroup - 3) * pitch;
  }
}

// Moves a thread's rows up by one. Rows that take turns in the place of the first are stored by one
// piece of code: unrolled, it would be 90 KB that every tile fetches anew.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaNextRow(
    float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
#pragma unroll
  for (int r = 0; r + 1 < kKernel.shape.rows; ++r) {
#pragma unroll
    for (int j = 0; j < kKernel.shape.columns; ++j) sum[r][j] = sum[r + 1][j];
  }
}

// The results of a thread whose first is (row, column), in any case.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreInside(
    const FfmaGemm& g, int64_t batch, int64_t row, int64_t column,
    float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
#pragma unroll 1
  for (int i = 0; i < Layout::kRows; ++i) {
#pragma unroll
    for (int q = 0; q < Layout::kColumns / 4; ++q) {
      FfmaStoreFour(
          g, batch, row, column + q * Layout::kColumnGroup,
          make_float4(sum[0][4 * q], sum[0][4 * q + 1], sum[0][4 * q + 2], sum[0][4 * q + 3]));
    }
    row += i % 4 != 3 ? 1 : Layout::kRowGroup - 3;
    FfmaNextRow<kKernel>(sum);
  }
}

// The same through the warp's own `staging` in shared memory: a row of the warp's results at a
// time, 32 neighbours a store. As threads hold them, they would go into 16 pieces of lines at a
// time, which took as long as 110 products of a tile's sum (H200, 2026-11-30). (row, column) is the
// warp's first.
//
// Where C is not read, all of what is staged is loaded before any of it is stored, and a store is
// one addition away from the one before: two rows at a time, each element's address computed, took
// 10 % of 2732 x 3605 x 269 more.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreStaged(
    const FfmaGemm& g, int64_t batch, int64_t row, int64_t column, int lane, uint32_t staging,
    float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
  constexpr int kLaneRows = kKernel.shape.lane_rows;
  constexpr int kWidth = Layout::kColumns * Layout::kLaneColumns;
  constexpr int kPieces = kWidth / 32;
  static_assert(kWidth % 32 == 0, "whole stores");
  const uint32_t mine = staging + lane / Layout::kLaneColumns * Layout::kStagingPitch +
                        lane % Layout::kLaneColumns * 16;
  const StridedGemm<float>& p = g.p;
  const bool reads_c = p.beta != 0;
  // What the other lanes keep there between quarters has been read.
  if constexpr (kKernel.shape.lent_stages > 0) __syncwarp();
  // Multiplied by 1, if not by alpha, so that a store does not tie sums together: see
  // ffma_multiply.cuh.
  const float factor = reads_c ? g.one : p.alpha;
  const auto columns = static_cast<int>(min(p.n - column, int64_t{kWidth}));
  float* to = p.d + batch * p.d_batch + row * p.d_row + column + lane;
#pragma unroll 1
  for (int i = 0; i < Layout::kRows; ++i) {
#pragma unroll
    for (int q = 0; q < Layout::kColumns / 4; ++q) {
      StoreShared4(
          mine + q * Layout::kColumnGroup * 4,
          make_float4(Multiply(factor, sum[0][4 * q]), Multiply(factor, sum[0][4 * q + 1]),
                      Multiply(factor, sum[0][4 * q + 2]), Multiply(factor, sum[0][4 * q + 3])));
    }
    __syncwarp();
    if (reads_c) {
#pragma unroll 2
      for (int r = 0; r < kLaneRows; ++r) {
        const int64_t at = row + 4 * r;
        if (at >= p.m) break;
#pragma unroll
        for (int h = lane; h < lane + kWidth; h += 32) {
          if (h >= columns) continue;
          StoreElement(p, batch, at, column + h,
                       LoadShared(staging + r * Layout::kStagingPitch + h * 4));
        }
      }
    } else {
      float staged[kLaneRows][kPieces];
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) {
#pragma unroll
        for (int h = 0; h < kPieces; ++h) {
          staged[r][h] = LoadShared(staging + r * Layout::kStagingPitch + (32 * h + lane) * 4);
        }
      }
      float* at = to;
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) {
        if (row + 4 * r >= p.m) break;
#pragma unroll
        for (int h = 0; h < kPieces; ++h) {
          if (32 * h + lane < columns) at[32 * h] = staged[r][h];
        }
        at += 4 * p.d_row;
      }
    }
    __syncwarp();
    const int next = i % 4 != 3 ? 1 : Layout::kRowGroup - 3;
    row += next;
    to += next * p.d_row;
    FfmaNextRow<kKernel>(sum);
  }
}

// Stores a quarter of a tile of a cut matrix: quarters lie as results do, in rows of whole fours.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStoreQuarter(
    const FfmaGemm& g, const FfmaPiece& piece,
    const float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
  const FfmaPlace<kKernel> at(ThreadIndexAgain());
  const int64_t row = int64_t{piece.tile_m} * Layout::kTileM + at.row;
  const int64_t column = int64_t{piece.tile_n} * Layout::kTileN + at.column;
  FfmaStoreWhole<kKernel>(sum, g.one,
                          g.partial + (piece.part * g.p.m + row) * g.partial_pitch + column,
                          g.partial_pitch, g.p.m - row, g.partial_pitch - column);
}

// Stores a tile that one warp of each place has summed, or its part.
template <FfmaKernel kKernel>
__device__ __forceinline__ void FfmaStore(const FfmaGemm& g, const FfmaPiece& piece, uint32_t ring,
                                          float (&sum)[kKernel.shape.rows][kKernel.shape.columns]) {
  using Layout = FfmaLayout<kKernel>;
  const FfmaPlace<kKernel> at(ThreadIndexAgain());
  const int64_t row = int64_t{piece.tile_m} * Layout::kTileM + at.row;
  const int64_t column = int64_t{piece.tile_n} * Layout::kTileN + at.column;
  const bool part = piece.part >= 0;
  const bool fours = g.p.n % 4 == 0 || column - at.column + Layout::kTileN <= g.p.n;
  if (part || (g.store_whole && fours)) {
    float* to =
        part ? g.partial + (piece.part * Layout::kTileM + at.row) * Layout::kTileN + at.column
             : g.p.d + piece.batch * g.p.d_batch + row * g.p.d_row + column;
    FfmaStoreWhole<kKernel>(sum, part ? g.one : g.p.alpha, to,
                            part ? int64_t{Layout::kTileN} : g.p.d_row,
                            part ? int64_t{Layout::kTileM} : g.p.m - row,
                            part ? int64_t{Layout::kTileN} : g.p.n - column);
  } else if (g.store_16) {
    FfmaStoreInside<kKernel>(g, piece.batch, row, column, sum);
  } else {
    FfmaStoreStaged<kKernel>(g, piece.batch, row - at.lane / Layout::kLaneColumns * 4,
                             column - at.lane % Layout::kLaneColumns * 4, at.lane,
                             ring + Layout::kRingBytes + at.tile_warp * Layout::kStagingBytes, sum);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_STORE_CUH_
