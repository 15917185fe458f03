// The kernel argument of the skinny family, and the sizes that its host and device code share.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_

#include <cstddef>
#include <cstdint>

#include "kernels/families/strided_gemm.h"
#include "kernels/families/sum_order.h"

namespace gemm {

inline constexpr int kSkinnyThreads = 256;
inline constexpr int kSkinnyStrip = 64;  // of j, a block: 4 for each group of lanes
inline constexpr int kSkinnyDepth = kLanes * kLaneGranule;  // of k, a stage
inline constexpr int kSkinnyXPitch = kSkinnyDepth + 4;      // spreads rows over the banks
static_assert(kSkinnyThreads / kLanes * 4 == kSkinnyStrip);

// What a kernel for up to kRows rows of x takes. Two blocks a multiprocessor while the sums leave
// registers for it; the ring is as long as an A100's shared memory allows.
template <int kRows>
struct SkinnyShape {
  static constexpr int kBlocks = kRows <= 8 ? 2 : 1;
  static constexpr int kStages = kRows == 16 || kRows == 24 ? 6 : 5;
  static constexpr int kStageFloats = kSkinnyStrip * kSkinnyDepth + kRows * kSkinnyXPitch;
  // The ring, and sums behind it.
  static constexpr size_t kSharedBytes =
      sizeof(float) * (kStageFloats * kStages + kRows * kSkinnyStrip);
};

struct SkinnyGemm {
  StridedGemm<float> p;
  int64_t rows;    // of x
  int64_t length;  // of j
  const float* x;  // element (r, l) at r * x_row + l * x_column
  int64_t x_row;
  int64_t x_column;
  int64_t x_batch;
  const float* matrix;  // element (j, l) at j * matrix_row + l * matrix_column
  int64_t matrix_row;
  int64_t matrix_column;
  int64_t matrix_batch;
  bool x_is_a;
  bool x_16;  // every four elements along k are 16-byte aligned
  bool matrix_16;
  int chunks;
  int64_t chunk_length;
  float* partial;  // null, or where chunks leave their sums, [chunk][batch][m][pitch]
  int64_t pitch;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
