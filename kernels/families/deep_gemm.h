// The kernel argument of the deep family, and the sizes that its host and device code share.

#ifndef GEMMD_KERNELS_FAMILIES_DEEP_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_DEEP_GEMM_H_

#include <cstddef>
#include <cstdint>

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
  DeepOperand a;  // lines are rows of D
  DeepOperand b;  // columns
  int tiles_m;
  int tiles_n;
  int chunks;
  int chunk_length;
  int lanes;       // of the second pass: a power of two, no fewer than there are chunks, or 32
  float* partial;  // [batch][tile][chunk][kDeepTileResults]
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DEEP_GEMM_H_
