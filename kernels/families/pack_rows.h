// Copies rows that are not 16-byte aligned to where they are.

#ifndef GEMMD_KERNELS_FAMILIES_PACK_ROWS_H_
#define GEMMD_KERNELS_FAMILIES_PACK_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gemm {

// Element e of row r of matrix q is at from[q * batch_stride + r * row_stride + e] and goes to
// to[(q * rows + r) * pitch + e].
struct RowPacking {
  const float* from;
  int64_t row_stride;
  int64_t batch_stride;
  int64_t rows;
  int64_t elements;
  int64_t matrices;
  float* to;
  int64_t pitch;
};

cudaError_t PreparePackRows();

// May start before the kernel before it has ended, and lets the one behind it start once that has.
cudaError_t LaunchPackRows(const RowPacking& packing, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_PACK_ROWS_H_
