// The kernel argument of the skinny family, and the sizes that its host and device code share.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/families/divisor.h"
#include "kernels/families/strided_gemm.h"
#include "kernels/families/sum_order.h"

namespace gemm {

inline constexpr int kSkinnyThreads = 32 * kLaneWarps;
// Sums of a block: what more than two exchange in less time than a second pass.
inline constexpr int kFewResults = 512;

// How steps come into shared memory.
enum class SkinnyFeed {
  kCopies,        // by cp.async, the matrix 16 bytes at a time
  kBoxes,         // by boxes of the copy engine
  kShifted,       // by cp.async, 16 bytes at a time from rows of any alignment
  kShiftedBoxes,  // by four boxes, from rows of any alignment
};

// How an operand's rows lie in shared memory.
enum class SkinnyRows {
  kAligned,
  kShifted,    // 0 to 3 elements behind their places, as they lie behind a multiple of 16 bytes:
               // row r + 4 as many as row r
  kQuartered,  // so too, each fourth row together
};
inline constexpr int kSkinnyQuarters = 4;

// Elements from one row to the next of its quarter, such that lanes meet in no bank; and of a
// quarter.
constexpr int QuarteredPitch(int row_elements, bool along) {
  return row_elements + (along || row_elements == kNarrowStrip ? 4 : 8);
}
constexpr int QuarterElements(int rows, int pitch) {
  return (rows / kSkinnyQuarters * pitch + 31) / 32 * 32;
}
// Of `lines` times `step`, whichever is contiguous.
constexpr int QuarteredBytes(int lines, int step) {
  return 4 * kSkinnyQuarters *
         std::max(QuarterElements(lines, QuarteredPitch(step, true)),
                  QuarterElements(step, QuarteredPitch(lines, false)));
}

// What a kernel for up to kRows rows of x takes. A warp has the whole of a block's results, of its
// own products: its threads are kGroups along j, kTeams along the rows, and lanes of k.
template <int kRowsOfX, SkinnyFeed kFeedOf, int kStripOf = SkinnyStrip(kRowsOfX)>
struct SkinnyShape {
  static constexpr int kRows = kRowsOfX;
  static constexpr SkinnyFeed kFeed = kFeedOf;
  static constexpr bool kShifted = kFeed == SkinnyFeed::kShifted;
  static constexpr bool kQuartered = kFeed == SkinnyFeed::kShiftedBoxes;
  static constexpr bool kEngine = kFeed == SkinnyFeed::kBoxes || kQuartered;
  static constexpr SkinnyRows kMatrixRows = kQuartered ? SkinnyRows::kQuartered
                                            : kShifted ? SkinnyRows::kShifted
                                                       : SkinnyRows::kAligned;
  static constexpr int kStrip = kStripOf;  // of j, a block
  static constexpr bool kNarrow = kStrip == kNarrowStrip;
  static constexpr int kGroups = kNarrow ? 4 : 8;
  static constexpr int kTeams = 32 / kGroups / LanesOf(kRows);
  static constexpr int kThreadRows = kRows / kTeams;
  static constexpr int kThreadColumns = kStrip / kGroups;
  // A multiprocessor.
  static constexpr int kBlocks = kRows <= (kShifted ? 4 : 16) && !kQuartered ? 2 : 1;

  // The ring of one warp. More rows go in steps of 16 products, so that more of them fit.
  static constexpr int kGranules = kRows <= (kShifted ? 16 : 32) ? 8 : 4;
  static constexpr int kStep = kGranules * kLaneGranule;
  static constexpr int kStages = kNarrow      ? 4
                                 : kQuartered ? (kRows == 32 ? 2 : 3)
                                 : kShifted   ? (kRows <= 48 ? 3 : 2)
                                              : (kRows <= 4 || kRows > 32 ? 3 : 2);
  // With these, two blocks of any alignment find room on a multiprocessor, which is faster where
  // there are more of them than multiprocessors, and slower where not.
  static constexpr int kFewerStages = kShifted && kRows <= 4 ? 2 : kStages;
  // Granules in the body of a lane's loop: it should fit the instruction cache.
  static constexpr int kUnrolled = kThreadRows * kThreadColumns <= 64 ? kGranules : 2;
  static constexpr int kMatrixBytes =
      kQuartered ? QuarteredBytes(kStrip, kStep)
                 : 4 * (kStrip * kStep + (kShifted ? 4 * std::max(kStrip, kStep) : 0));
  static constexpr int kXBytes = (4 * kRows * kStep + 127) / 128 * 128;
  // Of x; boxes with a swizzle begin at multiples of 1024 bytes.
  static_assert(kLaneWarps * kStages * kMatrixBytes % 1024 == 0);
  static constexpr int kStageBytes = kLaneWarps * (kMatrixBytes + kXBytes);
  static constexpr int kRingBytes = kStages * kStageBytes;

  static constexpr int kTotalsAt = kRingBytes;  // of the block, or of its share of a cluster's
  // More than two blocks share few results, in columns that may be of uneven numbers.
  static constexpr int kTogether = kRows * kStrip <= kFewResults ? kMostTogether : 2;
  static constexpr int kBarriersAt = kTotalsAt + 4 * kRows * (kStrip + 2 * kTogether);
  static constexpr size_t kSharedBytes = kBarriersAt + 8 * kLaneWarps * kStages;
};

// How the kernels of skinny_lines.h share out a product. A strip is 32 columns, or the rows of a
// warp.
struct LineShare {
  int warps;   // that share a strip: 1 or kColumnWarps; of dots 1
  int share;   // chunks of a strip that are summed at once, each by warps of its own
  int rows;    // of a warp at once, of dots
  int strips;  // of a matrix
  int parts;   // of a strip: 1, or its chunks where they are left to a second pass
  int items;   // all parts of all strips of all matrices
  Divisor by_strips;
  Divisor by_parts;
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
  bool fewer_stages;
  bool alone;          // blocks do not crowd, so that the launch may start early
  bool x_is_packed;    // by the kernel before
  bool x_by_elements;  // though the matrix comes by boxes
  bool x_16;           // four elements in a row, along what is contiguous, are 16-byte aligned
  bool matrix_16;      // so they are, and that is k
  int box_step_x;      // from one matrix of the batch to the next: 1, or 0 if they share one
  int box_step_matrix;
  int64_t whole_strips;  // the first ones, of which a block has all of k
  int chunks;            // of each of the others
  int chunk_blocks;      // blocks that share those
  int64_t chunk_length;
  LineShare line;
  float* partial;  // null, or where chunks leave their sums, [chunk][batch][row of x][pitch]
  int64_t pitch;   // a multiple of four, or 1 for a single result
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_GEMM_H_
