// Describing an operand to the tensor copy engine.

#ifndef GEMMD_KERNELS_FAMILIES_TENSOR_BOXES_H_
#define GEMMD_KERNELS_FAMILIES_TENSOR_BOXES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace gemm {

// f32 matrices with `outer` contiguous, of which boxes of box_outer x box_depth are fetched. Base
// and strides are multiples of 16 bytes, strides below 2^40 bytes, sizes up to 2^32 and at least 1.
struct TensorBoxes {
  const float* base = nullptr;
  int64_t outer = 0;
  int64_t depth = 0;
  int64_t matrices = 0;
  int64_t depth_stride = 0;   // elements
  int64_t matrix_stride = 0;  // elements; any with one matrix
  int box_outer = 0;          // up to 256
  int box_depth = 0;
  // The copy engine's swizzle, of 32, 64 or 128 bytes, in which a line of the box fits; 0 for none.
  int swizzle_bytes = 0;
};

// Finds the driver's function. Once before the first MakeTensorMap.
cudaError_t PrepareTensorMaps();

// Host arithmetic alone.
cudaError_t MakeTensorMap(const TensorBoxes& boxes, CUtensorMap* map);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_TENSOR_BOXES_H_
