// Describing an operand to the tensor copy engine.

#ifndef GEMMD_KERNELS_FAMILIES_TENSOR_BOXES_H_
#define GEMMD_KERNELS_FAMILIES_TENSOR_BOXES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace gemm {

// f32 matrices with `outer` contiguous, of which boxes of box_outer x box_depth are fetched. For a
// tensor map base and strides are multiples of 16 bytes, strides below 2^40 bytes, sizes up to 2^32
// and at least 1.
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

// Rows of any alignment, for a copy engine to which every row of a box has to begin at a multiple
// of 16 bytes, else it raises cudaErrorIllegalInstruction: rows c, c + 4, c + 8 and so on lie a
// multiple of 16 bytes apart, so each such class has a map of its own, from the 16-byte boundary
// before its first row on. A box of `box_depth` rows that begins at a multiple of four of them
// comes as four boxes, a class after the other: row r of it lies at r % 4 * (box_depth / 4) + r
// / 4.
inline constexpr int kRowClasses = 4;

// Element (outer o, depth l) of matrix q is element (first + q * matrix_step + o, l / 4, q), the
// last 0 where the class has one matrix. Boxes begin at a multiple of four elements, so to have a
// certain one they are up to three wider.
struct RowClass {
  TensorBoxes boxes;
  int first;        // 0 to 3; of a class without rows so much that no box has elements
  int matrix_step;  // 0 to 3; if 0, elements behind a row's end read as 0 and are not written
};

// Row class `index` of rows whose base and strides are multiples of 4 bytes, with box_depth a
// multiple of four. No map reaches beyond the rows' last element, nor more than 12 bytes before
// their first.
RowClass RowClassOf(const TensorBoxes& rows, int index);

// Whether the rows are within the copy engine's limits in classes.
bool FitRowClasses(const TensorBoxes& rows);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_TENSOR_BOXES_H_
