// Copies operands so that the tensor copy engine can fetch tiles of them: outer index contiguous,
// rows 16-byte aligned. The families of ffma_family.h do it for an operand whose rows are not, or
// with k contiguous; it costs reading and writing the operand once.

#ifndef GEMMD_KERNELS_FAMILIES_PACK_OPERANDS_H_
#define GEMMD_KERNELS_FAMILIES_PACK_OPERANDS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gemm {

// Element (outer o, depth l) of matrix q is at from[q * batch_stride + o * outer_stride +
// l * depth_stride] and goes to to[(q * depth + l) * pitch + o]. One of the strides is 1; `to` is
// 16-byte aligned and the pitch a multiple of 4.
struct Packing {
  const float* from;
  int64_t outer_stride;
  int64_t depth_stride;
  int64_t batch_stride;
  int64_t outer;
  int64_t depth;
  int64_t batch_count;  // 0: nothing is to be packed
  float* to;
  int64_t pitch;

  int64_t tiles_outer() const;
  int64_t tiles_depth() const;
  int64_t blocks() const { return tiles_outer() * tiles_depth() * batch_count; }
};

cudaError_t PreparePackOperands();

// Packs both in one kernel.
cudaError_t LaunchPackOperands(const Packing& a, const Packing& b, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_PACK_OPERANDS_H_
