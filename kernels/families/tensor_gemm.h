// The kernel argument of tensor, and the shapes of its tiles: plain C++.

#ifndef GEMMD_KERNELS_FAMILIES_TENSOR_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_TENSOR_GEMM_H_

#include <cstdint>
#include <iterator>

#include "kernels/families/strided_gemm.h"

namespace gemm {

inline constexpr int kTensorSlab = 16;                           // products
inline constexpr int kTensorLineBytes = kTensorSlab * 8;         // see tensor_feed.cuh
inline constexpr int kTensorPanelBytes = 16 * kTensorLineBytes;  // of 16 rows
inline constexpr int kTensorProducers = 128;

// A tile of warps_m x warps_n warps' parts. Half a slab at a time is what large parts can hold of
// their operands twice in registers, else it is a whole one.
struct TensorShape {
  int warps_m;
  int warps_n;
  int warp_m;
  int warp_n;
  int fours;  // of products that an mma adds: 2 or 4
  int slabs;  // of a stage
  int stages;
  int blocks;              // that a multiprocessor holds
  int consumer_registers;  // 0: as many as a producer
  int producer_registers;

  constexpr int consumers() const { return warps_m * warps_n * 32; }
  constexpr int threads() const { return consumers() + kTensorProducers; }
  constexpr int tile_m() const { return warps_m * warp_m; }
  constexpr int tile_n() const { return warps_n * warp_n; }
  constexpr int slab_bytes() const { return (tile_m() + tile_n()) * kTensorLineBytes; }
  constexpr int ring_bytes() const { return stages * slabs * slab_bytes(); }
  constexpr int shared_bytes() const { return ring_bytes() + 2 * stages * 8; }  // and barriers
};
inline constexpr TensorShape kTensorShapes[] = {
    {2, 4, 64, 32, 2, 1, 6, 1, 224, 56},  // 128 x 128
    {2, 2, 64, 32, 2, 1, 4, 2, 200, 56},  // 128 x 64
    {2, 2, 32, 32, 2, 1, 6, 2, 200, 56},  // 64 x 64
    {2, 2, 32, 16, 4, 2, 4, 2, 208, 48},  // 64 x 32
    {2, 2, 16, 32, 4, 2, 4, 2, 208, 48},  // 32 x 64
    {2, 2, 16, 16, 4, 2, 5, 2, 0, 0},     // 32 x 32
    {1, 4, 16, 8, 4, 2, 8, 2, 0, 0},      // 16 x 32
    {2, 2, 16, 8, 4, 2, 8, 2, 0, 0},      // 32 x 16
};
inline constexpr int kTensorShapeCount = std::size(kTensorShapes);

// What a launch computes: chunk blockIdx.y of the sums of all tiles.
struct TensorGemm {
  StridedGemm<double> p;
  int shape;  // kTensorShapeCount: the second pass, which adds up chunks
  int chunks;
  uint32_t tiles;  // of the whole batch
  int64_t chunk_length;
  double* partial;  // where sums of chunks go, [chunk][batch][m][n]; null: results go to D
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_TENSOR_GEMM_H_
