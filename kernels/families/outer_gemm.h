// The arguments of the outer family's kernel, and its tiles.

#ifndef GEMMD_KERNELS_FAMILIES_OUTER_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_OUTER_GEMM_H_

#include <cstdint>

#include "kernels/families/strided_gemm.h"

namespace gemm {

inline constexpr int kOuterThreads = 256;
inline constexpr int kOuterWarps = kOuterThreads / 32;

// Floats of a 32-byte sector, the least that the caches write whole. Rows of D that are a multiple
// of so many rows apart begin at the same distance from one.
inline constexpr int kOuterSector = 8;

// How many results a thread has each way; see outer.cu.
struct OuterTile {
  int rows;     // kOuterWarps apart
  int columns;  // 32 apart

  constexpr int tile_m() const { return rows * kOuterWarps; }
  constexpr int tile_n() const { return columns * 32; }

  // In shared memory. A thread's rows of A are neighbours, padded to 16 bytes.
  constexpr int padded_rows() const { return (rows + 3) / 4 * 4; }
  constexpr int pitch_a() const { return padded_rows() * kOuterWarps + 4; }
  // Odd: products that are neighbours in memory then lie in different banks.
  constexpr int pitch_b() const { return kOuterSector + tile_n() + 1; }
  // One product more, which is loaded but not used.
  constexpr int64_t floats_b(int64_t k) const { return ((k + 1) * pitch_b() + 3) / 4 * 4; }
  constexpr int64_t shared_bytes(int64_t k) const {
    return 4 * (floats_b(k) + (k + 1) * pitch_a());
  }
};

// A product, or a batch of products, of such tiles.
struct OuterGemm {
  StridedGemm<float> p;
  unsigned tiles_m;
  unsigned tiles_n;
  // kOuterSector - 1, or 0: then a tile's rows begin below each other, else up to so many elements
  // further left, at a sector's boundary.
  unsigned shift_mask;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_OUTER_GEMM_H_
