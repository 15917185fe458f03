// The kernel argument of the skinny family, and the sizes that its host and device code share.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/families/strided_gemm.h"
#include "kernels/families/sum_order.h"

namespace gemm {

inline constexpr int kSkinnyThreads = 32 * kLaneWarps;
inline constexpr int kSkinnyGroups = 8;  // threads of a warp side by side along j

// How steps come into shared memory.
enum class SkinnyFeed {
  kCopies,   // by cp.async, the matrix 16 bytes at a time
  kBoxes,    // by boxes of the copy engine
  kShifted,  // by cp.async, 16 bytes at a time from rows of any alignment
};

// What a kernel for up to kRows rows of x takes. A warp has the whole of a block's results, of its
// own products: its threads are 8 along j, kTeams along the rows, and lanes of k.
template <int kRowsOfX, SkinnyFeed kFeedOf>
struct SkinnyShape {
  static constexpr int kRows = kRowsOfX;
  static constexpr SkinnyFeed kFeed = kFeedOf;
  static constexpr bool kShifted = kFeed == SkinnyFeed::kShifted;
  static constexpr int kTeams = 4 / LanesOf(kRows);
  static constexpr int kThreadRows = kRows / kTeams;
  static constexpr int kThreadColumns = SkinnyStrip(kRows) / kSkinnyGroups;
  static constexpr int kStrip = SkinnyStrip(kRows);  // of j, a block
  // A multiprocessor.
  static constexpr int kBlocks = kRows <= (kShifted ? 4 : 16) ? 2 : 1;

  // The ring of one warp. More rows go in steps of 16 products, so that more of them fit.
  static constexpr int kGranules = kRows <= (kShifted ? 16 : 32) ? 8 : 4;
  static constexpr int kStep = kGranules * kLaneGranule;
  static constexpr int kStages =
      kShifted ? (kRows <= 48 ? 3 : 2) : (kRows <= 4 || kRows > 32 ? 3 : 2);
  // Granules in the body of a lane's loop: it should fit the instruction cache.
  static constexpr int kUnrolled = kRows <= 16 ? kGranules : 2;
  static constexpr int kMatrixBytes =
      4 * (kStrip * kStep + (kShifted ? 4 * std::max(kStrip, kStep) : 0));
  static constexpr int kXBytes = (4 * kRows * kStep + 127) / 128 * 128;
  static constexpr int kRingBytes = kLaneWarps * kStages * (kMatrixBytes + kXBytes);

  static constexpr int kTotalsAt = kRingBytes;  // of the block, or of its share of a cluster's
  static constexpr int kBarriersAt = kTotalsAt + 4 * kRows * (kStrip + 2);
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
  bool x_16;       // four elements in a row, along what is contiguous, are 16-byte aligned
  int box_step_x;  // from one matrix of the batch to the next: 1, or 0 if they share one
  int box_step_matrix;
  int64_t whole_strips;  // the first ones, of which a block has all of k
  int chunks;            // of each of the others
  int chunk_blocks;      // blocks that share those
  int64_t chunk_length;
  float* partial;  // null, or where chunks leave their sums, [chunk][batch][row of x][pitch]
  int64_t pitch;   // a multiple of four
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
