// The kernel argument of the deep family, and the sizes that its host and device code share.

#ifndef GEMMD_KERNELS_FAMILIES_DEEP_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_DEEP_GEMM_H_

#include <cstddef>
#include <cstdint>

#include "kernels/families/divisor.h"
#include "kernels/families/strided_gemm.h"
#include "kernels/families/sum_order.h"

namespace gemm {

// A stage: of each operand kDeepTile lines by kDeepStage products.
inline constexpr int kDeepOperandBytes = kDeepTile * kDeepStage * static_cast<int>(sizeof(float));
inline constexpr int kDeepStageBytes = 2 * kDeepOperandBytes;
inline constexpr int kDeepStages = 6;
inline constexpr size_t kDeepRingBytes = size_t{kDeepStages} * kDeepStageBytes;
// Behind the ring: for every stage whether it has come, is turned, and may be filled again.
inline constexpr size_t kDeepSharedBytes = kDeepRingBytes + size_t{3} * 8 * kDeepStages;

inline constexpr int kDeepWarps = 8;    // that multiply
inline constexpr int kDeepTurners = 4;  // warps that turn what has k contiguous
inline constexpr int kDeepCopiers = 4;  // warps that copy where boxes cannot

// The results of a tile in the workspace, in the order of the threads that have them.
inline constexpr int kDeepTileResults = kDeepTile * kDeepTile;

// Where blocks take chunks in turn, a tile of no more rows is summed in half the time.
inline constexpr int kDeepNarrow = kDeepTile / 2;
inline constexpr int kDeepTurnStages = 10;
inline constexpr size_t kDeepTurnRingBytes = size_t{kDeepTurnStages} * kDeepStageBytes;
// Behind the ring and its barriers: half of the sums of a narrow tile.
inline constexpr size_t kDeepHandedBytes = size_t{kDeepNarrow} * kDeepTile * sizeof(float);
inline constexpr size_t kDeepHandedAt = kDeepTurnRingBytes + size_t{3} * 8 * kDeepTurnStages;
inline constexpr size_t kDeepTurnSharedBytes = kDeepHandedAt + kDeepHandedBytes;
static_assert(kDeepHandedAt % 16 == 0);

struct DeepOperand {
  const float* base;  // element (line, l) at line * line_stride + l * k_stride
  int64_t line_stride;
  int64_t k_stride;
  int64_t batch_stride;
  int64_t lines;
  bool along;    // k is contiguous
  int box_step;  // from one matrix of the batch to the next: 1, or 0 if they share one
};

struct DeepGemm {
  StridedGemm<float> p;
  DeepOperand a;  // lines are rows of tiles
  DeepOperand b;  // columns
  bool turned;    // rows of tiles are columns of D
  int tiles_m;
  int tiles_n;
  int chunks;
  int chunk_length;
  int pieces;  // chunks of all tiles
  Divisor by_chunks;
  Divisor by_tiles;
  Divisor by_tiles_n;
  bool in_turns;   // there are fewer blocks than pieces
  int lanes;       // of the second pass: a power of two, no fewer than there are chunks, or 32
  int quads;       // of results of a tile in the workspace: all, or those of narrow tiles
  float* partial;  // [batch][tile][chunk][quads]
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DEEP_GEMM_H_
