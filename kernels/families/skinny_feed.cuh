// How steps of the skinny family lie in shared memory, and how cp.async brings them there.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_FEED_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_FEED_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/sum_order.h"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// One operand of a step: kLines rows of x, or of j, by kGranules times four products, with k
// contiguous (kAlong) or the lines. It lies in shared memory as in memory.
//
// kShifted: rows of memory may begin anywhere. They are copied 16 aligned bytes at a time, from the
// 16-byte boundary before them on, so that a row lies 0 to 3 elements behind its place: row r + 4
// as many as row r, since multiples of 16 bytes are between them.
template <bool kIsX, bool kIsAlong, int kLineCount, int kGranuleCount, int kTeamCount,
          bool kIsShifted>
struct SkinnySide {
  static constexpr bool kX = kIsX;
  static constexpr bool kAlong = kIsAlong;
  static constexpr bool kShifted = kIsShifted;
  static constexpr int kLines = kLineCount;
  static constexpr int kGranules = kGranuleCount;
  static constexpr int kTeams = kTeamCount;  // threads that share the lines
  static constexpr int kMine = kLines / kTeams;
  static constexpr int kStep = kGranules * kLaneGranule;
  // As rows of memory.
  static constexpr int kRows = kAlong ? kLines : kStep;
  static constexpr int kRowElements = kAlong ? kStep : kLines;
  static constexpr int kPitch = kRowElements + (kShifted ? 4 : 0);
  // Whether a thread's lines are neighbours by fours.
  static constexpr bool kFours = !kAlong && !kShifted;

  // The line of a thread's i-th.
  __device__ __forceinline__ static int LineOf(int i, int team) {
    return kFours ? (i / 4 * kTeams + team) * 4 + i % 4 : i * kTeams + team;
  }

  // Where 16 bytes of a row lie, in units of them. Swizzled such that what a quarter warp reads, or
  // of x half a warp, meets no bank twice.
  __device__ __forceinline__ static int UnitAt(int row, int unit) {
    if constexpr (kAlong && !kX && !kShifted) {
      return row * kGranules + (unit ^ (kGranules == 8 ? row % 8 : row / 2 % 4));
    }
    if constexpr (kFours && kX && kLines == 8) return row * 2 + (unit ^ (row / 4 % 2));
    if constexpr (kFours && kX && kLines == 16) return row * 4 + (unit ^ (row / 2 % 4));
    return row * (kPitch / 4) + unit;
  }
};

// How many bytes a thread's rows lie behind their places: by the number of its line modulo 4 where
// k is contiguous, by that of the product elsewhere.
struct SkinnyShifts {
  uint32_t bytes[4] = {};

  template <typename Side>
  __device__ __forceinline__ void Set(const float* row, int64_t row_stride, int team) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int number = Side::kAlong ? c * Side::kTeams + team : c;
      bytes[c] = static_cast<uint32_t>(
          (reinterpret_cast<uintptr_t>(row) + 4 * number * static_cast<uintptr_t>(row_stride)) %
          16);
    }
  }
};

// Copies a step by the threads of a warp, 16 bytes at a time: of `lines` lines and `left` products,
// zeros behind those. kWhole: there are as many as the step has.
template <typename Side, bool kWhole>
__device__ __forceinline__ void CopyPieces(const float* from, int64_t stride, int lines, int left,
                                           int thread, uint32_t to) {
  constexpr int kWide = Side::kRowElements / 4;  // pieces of a row
  constexpr int kPieces = Side::kRows * kWide;
  constexpr int kTurns = (kPieces + 31) / 32;
  // Where a thread stays in its column, one pointer goes on from row to row: offsets that the
  // compiler would keep take registers from the sums.
  constexpr bool kDown = kWhole && 32 % kWide == 0;
  const float* next = from + thread / kWide * stride + thread % kWide * 4;
#pragma unroll !kWhole ? 1 : kTurns <= 8 ? kTurns : 4
  for (int c = 0; c < kTurns; ++c) {
    const int piece = thread + 32 * c;
    if (kPieces % 32 != 0 && piece >= kPieces) break;
    const int row = piece / kWide;
    const int at = piece % kWide * 4;  // in the row
    // Results of lines that do not exist are not stored, whatever they are.
    if (!kWhole && Side::kAlong && row >= lines) break;
    int elements = 4;
    if constexpr (!kWhole) {
      const bool any = row < (Side::kAlong ? lines : left);
      elements = any ? max(0, min(4, (Side::kAlong ? left : lines) - at)) : 0;
    }
    const float* source = kDown ? next : from + row * stride + at;
    if (!kWhole && elements == 0) source = from;
    CopyAsync16(to + 16 * Side::UnitAt(row, at / 4), source, 4 * elements);
    if constexpr (kDown) {
      next += 32 / kWide * stride;
      asm volatile("" : "+l"(next));
    }
  }
}

// The same an element at a time.
template <typename Side>
__device__ __forceinline__ void CopyElements(const float* from, int64_t line_stride,
                                             int64_t k_stride, int lines, int left, int thread,
                                             uint32_t to) {
  constexpr int kWide = Side::kRowElements;
  constexpr int kElements = Side::kRows * kWide;
  constexpr int kTurns = (kElements + 31) / 32;
  constexpr bool kDown = 32 % kWide == 0;
  const int64_t stride = Side::kAlong ? line_stride : k_stride;
  const int64_t step = Side::kAlong ? k_stride : line_stride;
  const float* next = from + thread / kWide * stride + thread % kWide * step;
#pragma unroll 4
  for (int c = 0; c < kTurns; ++c) {
    const int element = thread + 32 * c;
    const int row = element / kWide;
    const int at = element % kWide;
    const float* source = kDown ? next : from + row * stride + at * step;
    if ((kElements % 32 == 0 || element < kElements) && (Side::kAlong ? row : at) < lines) {
      const bool any = (Side::kAlong ? at : row) < left;
      CopyAsync4(to + 16 * Side::UnitAt(row, at / 4) + 4 * (at % 4), any ? source : from,
                 any ? 4 : 0);
    }
    if constexpr (kDown) {
      next += 32 / kWide * stride;
      asm volatile("" : "+l"(next));
    }
  }
}

// The same of rows that begin anywhere: 16 aligned bytes at a time, of which the first reach up to
// 12 bytes before the row. Nothing is read behind its end.
template <typename Side, bool kWhole>
__device__ __forceinline__ void CopyAligned(const float* from, int64_t stride, int lines, int left,
                                            int thread, uint32_t to) {
  constexpr int kWide = Side::kRowElements / 4;
  constexpr int kPieces = Side::kRows * kWide;
  constexpr int kTurns = (kPieces + 31) / 32;
  constexpr bool kDown = kWhole && 32 % kWide == 0;
  const int rows = Side::kAlong ? lines : left;
  const int elements = Side::kAlong ? left : lines;
  const auto aligned = [](const float* address) {
    return reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{15});
  };
  // Of a piece at element `at` of a row, by what the row has before and behind it.
  const auto bytes = [&](const float* row, int at) {
    const auto before = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16);
    return static_cast<uint32_t>(max(0, min(16, before + 4 * (elements - at))));
  };
  const float* next = from + thread / kWide * stride + thread % kWide * 4;
#pragma unroll !kWhole ? 1 : kTurns <= 8 ? kTurns : 4
  for (int c = 0; c < kTurns; ++c) {
    const int piece = thread + 32 * c;
    if (kPieces % 32 != 0 && piece >= kPieces) break;
    const int row = piece / kWide;
    const int at = piece % kWide * 4;
    if (!kWhole && Side::kAlong && row >= rows) break;
    const float* begin = kDown ? next : from + row * stride + at;
    const uint32_t count = kWhole ? 16 : row < rows ? bytes(begin, at) : 0;
    CopyAsync16(to + 16 * Side::UnitAt(row, at / 4),
                kWhole || count > 0 ? aligned(begin) : aligned(from), count);
    if constexpr (kDown) {
      next += 32 / kWide * stride;
      asm volatile("" : "+l"(next));
    }
  }
  // One more piece at the end of each row, unless that begins at a boundary.
#pragma unroll 1
  for (int row = thread; row < Side::kRows; row += 32) {
    if (Side::kAlong && row >= rows) break;
    const float* begin = from + row * stride + Side::kRowElements;
    if (reinterpret_cast<uintptr_t>(begin) % 16 == 0) continue;
    const uint32_t count = row < rows ? bytes(begin, Side::kRowElements) : 0;
    CopyAsync16(to + 16 * Side::UnitAt(row, Side::kRowElements / 4),
                aligned(count > 0 ? begin : from), count);
  }
}

template <typename Side>
__device__ __forceinline__ void CopyMatrix(const float* from, int64_t stride, int lines, int left,
                                           int thread, uint32_t to) {
  const bool whole = lines >= Side::kLines && left >= Side::kStep;
  if constexpr (Side::kShifted) {
    if (whole) {
      CopyAligned<Side, true>(from, stride, lines, left, thread, to);
    } else {
      CopyAligned<Side, false>(from, stride, lines, left, thread, to);
    }
  } else if (whole) {
    CopyPieces<Side, true>(from, stride, lines, left, thread, to);
  } else {
    CopyPieces<Side, false>(from, stride, lines, left, thread, to);
  }
}

// By 16 bytes where four elements of a row are so aligned, else by one element: there are few.
template <typename Side>
__device__ __forceinline__ void CopyX(const float* from, int64_t line_stride, int64_t k_stride,
                                      bool by_16, int lines, int left, int thread, uint32_t to) {
  if (!by_16) {
    CopyElements<Side>(from, line_stride, k_stride, lines, left, thread, to);
    return;
  }
  const int64_t stride = Side::kAlong ? line_stride : k_stride;
  if (lines >= Side::kLines && left >= Side::kStep) {
    CopyPieces<Side, true>(from, stride, lines, left, thread, to);
  } else {
    CopyPieces<Side, false>(from, stride, lines, left, thread, to);
  }
}

// Four elements of a step: four products of the thread's i-th line, or of its i-th four lines the
// l-th product.
template <typename Side>
__device__ __forceinline__ void LoadFour(uint32_t from, const SkinnyShifts& shifts, int granule,
                                         int i, int l, int team, float (&four)[kLaneGranule]) {
  const int row = Side::kAlong ? Side::LineOf(i, team) : granule * kLaneGranule + l;
  if constexpr (Side::kShifted) {
    const uint32_t at = from + shifts.bytes[(Side::kAlong ? i : l) % 4] + 4 * Side::kPitch * row;
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
