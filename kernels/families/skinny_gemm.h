// The kernel argument of the skinny family, and the sizes that its host and device code share.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_

#include <cstddef>
#include <cstdint>

#include "kernels/families/strided_gemm.h"
#include "kernels/families/sum_order.h"

namespace gemm {

inline constexpr int kSkinnyThreads = 32 * kLaneWarps;
inline constexpr int kSkinnyGroups = 8;  // threads of a warp side by side along j

// What a kernel for up to kRows rows of x takes. A warp has the whole of a block's results, of its
// own products: its threads are 8 along j, kTeams along the rows, and lanes of k.
template <int kRowsOfX>
struct SkinnyShape {
  static constexpr int kRows = kRowsOfX;
  static constexpr int kTeams = 4 / LanesOf(kRows);
  static constexpr int kThreadRows = kRows / kTeams;
  static constexpr int kThreadColumns = SkinnyStrip(kRows) / kSkinnyGroups;
  static constexpr int kStrip = SkinnyStrip(kRows);    // of j, a block
  static constexpr int kBlocks = kRows <= 16 ? 2 : 1;  // a multiprocessor

  // The ring of one warp. More than 32 rows go in steps of 16 products, so that three fit.
  static constexpr int kGranules = kRows <= 32 ? 8 : 4;
  static constexpr int kStep = kGranules * kLaneGranule;
  static constexpr int kStages = kRows <= 4 || kRows > 32 ? 3 : 2;
  static constexpr int kMatrixBytes = 4 * kStrip * kStep;
  static constexpr int kXBytes = (4 * kRows * kStep + 127) / 128 * 128;
  static constexpr int kRingBytes = kLaneWarps * kStages * (kMatrixBytes + kXBytes);

  // The warps' sums, in the ring once it has run dry: rows `kPitch` apart, so that teams of rows
  // write to different banks.
  static constexpr int kPitch = kStrip + (kTeams > 1 ? 16 : 0);
  static_assert(4 * kLaneWarps * kRows * kPitch <= kRingBytes);

  static constexpr int kTotalsAt = kRingBytes;  // of the block, or of its share of a cluster's
  static constexpr int kBarriersAt = kTotalsAt + 4 * kRows * kStrip;
  static constexpr size_t kSharedBytes = kBarriersAt + 8 * kLaneWarps * kStages;
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
  bool x_16;  // four elements in a row, along what is contiguous, are 16-byte aligned
  bool matrix_16;
  int box_step_x;  // from one matrix of the batch to the next: 1, or 0 if they share one
  int box_step_matrix;
  int chunks;
  int64_t chunk_length;
  float* partial;  // null, or where chunks leave their sums, [chunk][batch][m][pitch]
  int64_t pitch;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
