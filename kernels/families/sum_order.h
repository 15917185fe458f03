// In which order a product's sums over k are added: the one place that decides it.
//
// The class depends on m, n, k and the type alone, and where k is cut depends on k alone: never on
// the batch, the strides, the alignment, the number of multiprocessors or the kernel. So a result
// has the same bits alone and in a batch, dense and padded, and whichever kernel of its class ran.
//
//   sequential         one sum over all of k.
//   quarters           k in four quarters: ((q0 + q1) + q2) + q3. For results of so few tiles that
//                      the device would stand half idle: four warps share a tile.
//   chunked_quarters   k in chunks, each summed in quarters; the chunks are added in order. For
//                      results smaller still against a long k: blocks share a tile.
//   chunked_lanes      k in chunks; in a chunk, product l belongs to lane (l / 4) % 32, lanes are
//                      added as a warp's shuffle does (lane i + lane i + 16, then 8, 4, 2, 1), the
//                      chunks in order. For products of a matrix and at most 4 vectors.
//
// Within a quarter or lane: acc = 0; for its l ascending: acc = fma(a, b, acc).

#ifndef GEMMD_KERNELS_FAMILIES_SUM_ORDER_H_
#define GEMMD_KERNELS_FAMILIES_SUM_ORDER_H_

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/kernel.h"

namespace gemm {

inline constexpr int kQuarters = 4;
inline constexpr int kQuarterGranule = 8;  // a quarter's length is a multiple of it
inline constexpr int kLanes = 32;
inline constexpr int kLaneGranule = 4;  // consecutive products of a lane
inline constexpr int64_t kMostVectors = 4;

// The class that a product is summed in where a kernel for it exists; sequential kernels run any.
inline NumericsClass NumericsOf(const Problem& problem) {
  const int64_t narrow = std::min(problem.m, problem.n);
  const int64_t k = problem.k;
  // Shorter sums leave nothing to share, and f64 has no kernels that do.
  if (problem.dtype != DType::kF32 || k < 128) return NumericsClass::kSequential;
  if (narrow <= kMostVectors) return NumericsClass::kChunkedLanes;
  // Tiles of 4096 results, of which a multiprocessor of an H200 holds two: 264 fill it. Up to 128
  // leave half of it idle even when four warps share a tile.
  const auto tiles_of = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
  const int64_t wide = std::max(problem.m, problem.n);
  const int64_t tiles = narrow <= 16   ? tiles_of(wide, 256)
                        : narrow <= 32 ? tiles_of(wide, 128)
                                       : tiles_of(narrow, 64) * tiles_of(wide, 64);
  if (tiles <= 128) return NumericsClass::kChunkedQuarters;
  // From 640 on, tiles of 128 x 128 and more fill it alone, unless the result is too narrow.
  if (tiles <= 640 || narrow <= 64) return NumericsClass::kQuarters;
  return NumericsClass::kSequential;
}

// Products in every chunk but the last, which has what is left: a multiple of 32 for quarters and
// of 128 for lanes.
inline int64_t ChunkLength(NumericsClass numerics, int64_t k) {
  const auto rounded = [](int64_t value, int64_t granule) {
    return (value + granule - 1) / granule * granule;
  };
  constexpr int64_t kGranule = int64_t{kQuarters} * kQuarterGranule;
  switch (numerics) {
    case NumericsClass::kSequential:
      break;
    case NumericsClass::kQuarters:
      return std::max(kGranule, rounded(k, kGranule));
    case NumericsClass::kChunkedQuarters: {
      // Four chunks while they are 64 long or longer; long sums in chunks of 512, which makes up
      // for the second pass; the longest, whose results must be small, in up to 256 chunks.
      int64_t chunks = std::max(std::min<int64_t>(4, k / 64), k / 512);
      if (k >= 32768) chunks = std::min<int64_t>(256, k / 256);
      return rounded((k + chunks - 1) / std::max<int64_t>(1, chunks), kGranule);
    }
    case NumericsClass::kChunkedLanes:
      return 4096;  // its part of 4 vectors fits the shared memory of a block
  }
  return std::max<int64_t>(1, k);
}

inline int64_t ChunkCount(NumericsClass numerics, int64_t k) {
  const int64_t length = ChunkLength(numerics, k);
  return std::max<int64_t>(1, k / length + (k % length != 0 ? 1 : 0));
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SUM_ORDER_H_
