// How steps of the skinny family lie in shared memory, and what brings them there.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_FEED_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_FEED_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/skinny_gemm.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// One operand of a step: kLines rows of x, or of j, by kGranules times four products, with k
// contiguous (kAlong) or the lines. It lies in shared memory as in memory.
template <bool kIsX, bool kIsAlong, int kLineCount, int kGranuleCount, int kTeamCount,
          SkinnyRows kRowsLie>
struct SkinnySide {
  static constexpr bool kX = kIsX;
  static constexpr bool kAlong = kIsAlong;
  static constexpr bool kShifted = kRowsLie != SkinnyRows::kAligned;
  static constexpr bool kQuartered = kRowsLie == SkinnyRows::kQuartered;
  static constexpr int kLines = kLineCount;
  static constexpr int kGranules = kGranuleCount;
  static constexpr int kTeams = kTeamCount;  // threads that share the lines
  static constexpr int kStep = kGranules * kLaneGranule;
  // As rows of memory.
  static constexpr int kRows = kAlong ? kLines : kStep;
  static constexpr int kRowElements = kAlong ? kStep : kLines;
  static constexpr int kPitch =
      kQuartered ? QuarteredPitch(kRowElements, kAlong) : kRowElements + (kShifted ? 4 : 0);
  static constexpr int kQuarterElements = QuarterElements(kRows, kPitch);
  // Whether a thread's lines are neighbours by fours.
  static constexpr bool kFours = !kAlong && !kShifted;
  // Whether its lines, k contiguous, are of all four shifts, not of one.
  static constexpr bool kAllShifts = kQuartered && kAlong && kGranules == 4;

  // The line of a thread's i-th.
  __device__ __forceinline__ static int LineOf(int i, int team) {
    if constexpr (kAllShifts) return i % 4 + 4 * (team + kTeams * (i / 4));
    if constexpr (kQuartered && kAlong) {
      return team % 4 + 4 * (i % 4 + 4 * (team / 4) + kTeams * (i / 4));
    }
    return kFours ? (i / 4 * kTeams + team) * 4 + i % 4 : i * kTeams + team;
  }

  // Where 16 bytes of a row lie, in units of them. Swizzled such that what a quarter warp reads, or
  // of x half a warp, meets no bank twice.
  __device__ __forceinline__ static int UnitAt(int row, int unit) {
    if constexpr (kAlong && !kShifted && (!kX || (kTeams == 4 && kGranules == 8))) {
      return row * kGranules + (unit ^ (kGranules == 8 ? row % 8 : row / 2 % 4));
    }
    if constexpr (kFours && kX && kLines == 8) return row * 2 + (unit ^ (row / 4 % 2));
    if constexpr (kFours && kX && kLines == 16) return row * 4 + (unit ^ (row / 2 % 4));
    return row * (kPitch / 4) + unit;
  }

  // Where a row lies, in elements, but for its shift.
  __device__ __forceinline__ static int RowAt(int row) {
    return kQuartered ? row % 4 * kQuarterElements + row / 4 * kPitch : row * kPitch;
  }
};

// How many bytes rows lie behind their places: those of a thread's lines where k is contiguous, of
// products elsewhere, each fourth as many.
struct SkinnyShifts {
  uint32_t bytes[4] = {};

  // `row`: the first of the operand, at a multiple of four products.
  template <typename Side>
  __device__ __forceinline__ void Set(const float* row, int64_t row_stride, int team) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int number = Side::kAlong ? Side::LineOf(c, team) : c;
      bytes[c] = static_cast<uint32_t>(
          (reinterpret_cast<uintptr_t>(row) + 4 * number * static_cast<uintptr_t>(row_stride)) %
          16);
    }
  }
};

// Copies a step by the threads of a warp, 16 bytes at a time: of `lines` lines and `left` products,
// zeros behind those. kWhole: there are as many as the step has. Rows that may begin anywhere are
// copied from the 16-byte boundary before them on, which takes one piece more unless they begin
// there, and nothing behind their end is read.
template <typename Side, bool kWhole>
__device__ __forceinline__ void CopyPieces(const float* from, int64_t stride, int lines, int left,
                                           int thread, uint32_t to) {
  constexpr int kPieces = Side::kRowElements / 4;
  constexpr int kWide = kPieces + (Side::kShifted ? 1 : 0);  // threads side by side on a row
  constexpr int kDeep = 32 / kWide;                          // rows at once
  constexpr int kTurns = (Side::kRows + kDeep - 1) / kDeep;
  const int rows = Side::kAlong ? lines : left;
  const int elements = Side::kAlong ? left : lines;
  const auto aligned = [](const float* address) {
    if constexpr (!Side::kShifted) return address;
    return reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{15});
  };
  if (kWide * kDeep < 32 && thread >= kWide * kDeep) return;
  const int at = thread % kWide * 4;  // in the row
  // A pointer goes on from row to row: offsets that the compiler would keep take registers from the
  // sums.
  const float* piece = from + thread / kWide * stride + at;
#pragma unroll !kWhole ? 1 : kTurns <= 8 ? kTurns : 4
  for (int c = 0; c < kTurns; ++c) {
    const int row = thread / kWide + kDeep * c;
    if (Side::kRows % kDeep != 0 && row >= Side::kRows) break;
    // Results of lines that do not exist are not stored, whatever they are.
    if (!kWhole && Side::kAlong && row >= rows) break;
    uint32_t bytes = 16;
    if (!kWhole || (Side::kShifted && at == 4 * kPieces)) {
      // By what the row has before and behind.
      const int before =
          Side::kShifted ? static_cast<int>(reinterpret_cast<uintptr_t>(piece) % 16) : 0;
      const bool none = row >= rows || (Side::kShifted && at == 4 * kPieces && before == 0);
      bytes = none ? 0 : static_cast<uint32_t>(max(0, min(16, before + 4 * (elements - at))));
    }
    CopyAsync16(to + 16 * Side::UnitAt(row, at / 4), aligned(kWhole || bytes > 0 ? piece : from),
                bytes);
    piece += kDeep * stride;
    asm volatile("" : "+l"(piece));
  }
}

// The same an element at a time, whatever the strides.
template <typename Side, bool kWhole>
__device__ __forceinline__ void CopyElements(const float* from, int64_t line_stride,
                                             int64_t k_stride, int lines, int left, int thread,
                                             uint32_t to) {
  constexpr int kElements = Side::kRowElements;
  // Threads side by side on a row, and rows at once.
  constexpr int kWide = kElements > 16 ? 32 : kElements > 8 ? 16 : kElements > 4 ? 8 : 4;
  constexpr int kDeep = 32 / kWide;
  constexpr int kTurns = Side::kRows / kDeep;
  static_assert(Side::kRows % kDeep == 0);
  const int64_t stride = Side::kAlong ? line_stride : k_stride;
  const int64_t step = Side::kAlong ? k_stride : line_stride;
#pragma unroll
  for (int at = thread % kWide; at < kElements; at += kWide) {
    if (!Side::kAlong && at >= lines) break;
    const float* next = from + thread / kWide * stride + at * step;
#pragma unroll 8
    for (int c = 0; c < kTurns; ++c) {
      const int row = thread / kWide + kDeep * c;
      if (Side::kAlong && row >= lines) break;
      const bool any = kWhole || (Side::kAlong ? at : row) < left;
      CopyAsync4(to + 16 * Side::UnitAt(row, at / 4) + 4 * (at % 4), any ? next : from,
                 any ? 4 : 0);
      next += kDeep * stride;
      asm volatile("" : "+l"(next));
    }
  }
}
template <typename Side>
__device__ __forceinline__ void CopyElements(const float* from, int64_t line_stride,
                                             int64_t k_stride, int lines, int left, int thread,
                                             uint32_t to) {
  if (left >= Side::kStep) {
    CopyElements<Side, true>(from, line_stride, k_stride, lines, left, thread, to);
  } else {
    CopyElements<Side, false>(from, line_stride, k_stride, lines, left, thread, to);
  }
}

template <typename Side>
__device__ __forceinline__ void CopyMatrix(const float* from, int64_t stride, int lines, int left,
                                           int thread, uint32_t to) {
  if (lines >= Side::kLines && left >= Side::kStep) {
    CopyPieces<Side, true>(from, stride, lines, left, thread, to);
  } else {
    CopyPieces<Side, false>(from, stride, lines, left, thread, to);
  }
}

// By 16 bytes where four elements of a row are so aligned, else by one element: there are few.
template <typename Side>
__device__ __forceinline__ void CopyX(const float* from, int64_t line_stride, int64_t k_stride,
                                      bool by_16, int lines, int left, int thread, uint32_t to) {
  if (by_16) {
    CopyMatrix<Side>(from, Side::kAlong ? line_stride : k_stride, lines, left, thread, to);
  } else {
    CopyElements<Side>(from, line_stride, k_stride, lines, left, thread, to);
  }
}

// The boxes of a side's step, a thread each: one, or one of each fourth row.
template <typename Side>
struct SkinnyBoxes {
  static constexpr int kBoxes = Side::kQuartered ? kSkinnyQuarters : 1;
  static constexpr int kBytes =
      4 * kBoxes * (Side::kQuartered ? Side::kRows / kSkinnyQuarters : Side::kRows) * Side::kPitch;

  __device__ __forceinline__ static void Copy(uint32_t to, const CUtensorMap* maps, int line, int k,
                                              int matrix, int thread, uint32_t barrier) {
    const int outer = Side::kAlong ? k : line;
    const int depth = Side::kAlong ? line : k;
    if constexpr (Side::kQuartered) {
      CopyBox(to + 4 * Side::kQuarterElements * thread, maps + thread, outer, depth / kBoxes,
              matrix, barrier);
    } else {
      CopyBox(to, maps, outer, depth, matrix, barrier);
    }
  }
};

// Four elements of a step: four products of the thread's i-th line, or of its i-th four lines the
// l-th product.
template <typename Side>
__device__ __forceinline__ void LoadFour(uint32_t from, const SkinnyShifts& shifts, int granule,
                                         int i, int l, int team, float (&four)[kLaneGranule]) {
  const int row = Side::kAlong ? Side::LineOf(i, team) : granule * kLaneGranule + l;
  if constexpr (Side::kShifted) {
    const int shift = !Side::kAlong ? l : Side::kAllShifts ? i % 4 : 0;
    const uint32_t at = from + shifts.bytes[shift] + 4 * Side::RowAt(row);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      four[e] = LoadShared(
          at + 4 * (Side::kAlong ? granule * kLaneGranule + e : Side::LineOf(4 * i + e, team)));
    }
  } else {
    const float4 v = LoadShared4(
        from + 16 * Side::UnitAt(row, Side::kAlong ? granule : i * Side::kTeams + team));
    four[0] = v.x;
    four[1] = v.y;
    four[2] = v.z;
    four[3] = v.w;
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_FEED_CUH_
