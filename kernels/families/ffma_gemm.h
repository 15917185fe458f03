// The kernel argument of the families that are built on ffma_pipeline.cuh.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_FFMA_GEMM_H_

#include <cstdint>

#include "kernels/families/strided_gemm.h"

namespace gemm {

// How a tile of an operand comes into shared memory, where it lies with the rows of op(A) or the
// columns of op(B), its "outer" index, contiguous.
enum class FfmaLoad : uint8_t {
  kOuter16,  // outer index contiguous in memory, every row 16-byte aligned: 16 bytes at a time
  kOuter4,   // the same, unaligned
  kDepth4,   // k contiguous in memory: transposed on the way, 4 bytes at a time
};

inline constexpr int kFfmaDepth = 32;  // k-steps a stage, over all slices
inline constexpr int kFfmaProducers = 128;
inline constexpr int kFfmaRows = 8;  // results of a thread
inline constexpr int kFfmaColumns = 16;
inline constexpr int kFfmaPadding = 4;

// How the results are shared out; see ffma_pipeline.cuh.
struct FfmaShape {
  int lane_rows;  // threads of a warp along m; 32 / lane_rows along n
  int warps_m;
  int warps_n;
  int slices;  // 1 or 4
  int stages;
  int blocks;  // a multiprocessor

  constexpr int lane_columns() const { return 32 / lane_rows; }
  constexpr int tile_m() const { return kFfmaRows * lane_rows * warps_m; }
  constexpr int tile_n() const { return kFfmaColumns * lane_columns() * warps_n; }
  constexpr int consumer_warps() const { return warps_m * warps_n * slices; }
  constexpr int threads() const { return 32 * consumer_warps() + kFfmaProducers; }
  constexpr int slice_depth() const { return kFfmaDepth / slices; }
  constexpr int pitch_a() const { return tile_m() + kFfmaPadding; }
  constexpr int pitch_b() const { return tile_n() + kFfmaPadding; }
  constexpr int bytes_a() const { return pitch_a() * kFfmaDepth * 4; }
  constexpr int stage_bytes() const { return bytes_a() + pitch_b() * kFfmaDepth * 4; }
  // The ring and its barriers, two a stage.
  constexpr int shared_bytes() const { return (stage_bytes() + 16) * stages; }
};

struct FfmaGemm {
  StridedGemm<float> p;
  FfmaLoad load_a;
  FfmaLoad load_b;
  bool store_16;  // rows of D are 16-byte aligned and C is not read
  int tiles_m;
  int tiles_n;
  int chunks;
  int work;          // batch_count * chunks * tiles
  int chunk_length;  // see sum_order.h
  int slice_length;  // products that a warp of those that share a tile sums: a quarter, or all
  float one;         // see ffma_pipeline.cuh
  // With several chunks: their sums, [chunk][batch][m][partial_pitch].
  float* partial;
  int64_t partial_pitch;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_GEMM_H_
