// The arguments of the small family's kernels, and the shapes of their tiles.

#ifndef GEMMD_KERNELS_FAMILIES_SMALL_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_SMALL_GEMM_H_

#include <cstdint>

#include "kernels/families/strided_gemm.h"

namespace gemm {

// How a tile of an operand comes into shared memory, where it lies with the rows of op(A) or the
// columns of op(B), its "outer" index, contiguous.
enum class SmallLoad : uint8_t {
  kOuter16,  // outer index contiguous in memory, every row 16-byte aligned: 16 bytes at a time
  kOuter4,   // the same, unaligned
  kDepth4,   // k contiguous in memory: transposed on the way, 4 bytes at a time
};

inline constexpr int kSmallPadding = 4;

// How the results of a tile are shared out; see small_tile.cuh.
struct SmallShape {
  int threads_m;  // of one slice
  int threads_n;
  int rows;  // of a thread: 2, 4 or 8
  int columns;
  int slices;  // 1, or 4 that share k
  int depth;   // products a stage, over all slices
  int stages;
  int producers;  // threads that do nothing but copy; 0: all copy
  int blocks;     // a multiprocessor, at most

  constexpr int tile_m() const { return threads_m * rows; }
  constexpr int tile_n() const { return threads_n * columns; }
  constexpr int consumers() const { return threads_m * threads_n * slices; }
  constexpr int threads() const { return consumers() + producers; }
  constexpr int stage_floats() const { return depth * (tile_m() + tile_n() + 2 * kSmallPadding); }
  constexpr int shared_bytes() const { return 4 * stage_floats() * stages; }
};

// A product, or a batch of products, and its tiles.
struct alignas(16) SmallProblem {
  StridedGemm<float> p;
  int tiles_m;
  int tiles_n;
  int slice_length;  // products of a slice, but for the last ones: see sum_order.h
  SmallLoad load_a;
  SmallLoad load_b;
  bool store_16;  // rows of D, and of C where it is read, are 16-byte aligned
};

// A grid of threads, 8 x 8 results each, that computes a tile; see small_grid.cuh.
struct SmallGrid {
  static constexpr int kSide = 8;
  static constexpr int kDepth = 32;           // products a stage
  static constexpr int kPitchA = kDepth + 4;  // floats of a row of A in shared memory
  static constexpr int kMostThreads = 512;

  int rows = 0;  // 0: no grid
  int columns = 0;

  // As a plan's variant, beyond those of the shapes.
  constexpr int variant() const { return rows << 16 | columns; }
  static constexpr SmallGrid Of(int variant) { return {variant >> 16, variant & 0xffff}; }

  constexpr int tile_m() const { return rows * kSide; }
  constexpr int tile_n() const { return columns * kSide; }
  constexpr int threads() const { return (rows * columns + 31) / 32 * 32; }
  constexpr int shared_bytes() const { return 4 * 2 * (tile_m() * kPitchA + tile_n() * kDepth); }
};

// A product, or a batch of products, of such tiles.
struct alignas(16) SmallGridProblem {
  StridedGemm<float> p;
  int rows;  // of the grid
  int columns;
};

// Many of them: block b belongs to the last problem whose first tile is not beyond b.
struct SmallGroup {
  const uint32_t* first_tiles;  // ascending; the first is 0
  const SmallProblem* problems;
  int count;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SMALL_GEMM_H_
