// Whether 16 bytes of an f32 matrix may be read or written at a time, by what its layout promises.

#ifndef GEMMD_KERNELS_FAMILIES_ALIGNED_ROWS_H_
#define GEMMD_KERNELS_FAMILIES_ALIGNED_ROWS_H_

#include <cstdint>

#include "kernels/gemm.h"

namespace gemm {

// Every row of every matrix of the batch begins at a multiple of 16 bytes.
inline bool HasAlignedRows(const MatrixLayout& layout, int64_t batch_count) {
  return layout.alignment_bytes % 16 == 0 && layout.ld % 4 == 0 &&
         (batch_count == 1 || layout.batch_stride % 4 == 0);
}

// And the copy engine takes its strides.
inline bool HasBoxableRows(const MatrixLayout& layout, int64_t batch_count) {
  constexpr int64_t kMostStride = int64_t{1} << 38;  // elements
  return HasAlignedRows(layout, batch_count) && layout.ld < kMostStride &&
         layout.batch_stride < kMostStride;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_ALIGNED_ROWS_H_
