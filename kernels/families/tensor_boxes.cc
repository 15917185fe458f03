#include "kernels/families/tensor_boxes.h"

#include <cudaTypedefs.h>

#include <algorithm>
#include <atomic>

#include "kernels/cuda_status.h"

namespace gemm {
namespace {

// From the driver, which is not linked: programs must start without one.
std::atomic<PFN_cuTensorMapEncodeTiled_v12000> encode_tiled = nullptr;

constexpr int kAligned = 4;  // elements in 16 bytes

}  // namespace

cudaError_t PrepareTensorMaps() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  GEMM_RETURN_IF_CUDA_ERROR(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  encode_tiled = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
  return cudaSuccess;
}

cudaError_t MakeTensorMap(const TensorBoxes& boxes, CUtensorMap* map) {
  const auto unsigned64 = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  const auto unsigned32 = [](int value) { return static_cast<cuuint32_t>(value); };
  const int64_t matrix_stride = boxes.matrices > 1 ? boxes.matrix_stride : boxes.depth_stride;
  const cuuint64_t sizes[] = {unsigned64(boxes.outer), unsigned64(boxes.depth),
                              unsigned64(boxes.matrices)};
  const cuuint64_t strides[] = {unsigned64(boxes.depth_stride) * sizeof(float),
                                unsigned64(matrix_stride) * sizeof(float)};
  const cuuint32_t box[] = {unsigned32(boxes.box_outer), unsigned32(boxes.box_depth), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  const CUtensorMapSwizzle swizzle = boxes.swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : boxes.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : boxes.swizzle_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                 : CU_TENSOR_MAP_SWIZZLE_NONE;
  // The driver only reads the address.
  auto* base = const_cast<float*>(boxes.base);
  const CUresult result =
      encode_tiled.load()(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, base, sizes, strides, box, steps,
                          CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

RowClass RowClassOf(const TensorBoxes& rows, int index) {
  const int64_t first_row = std::min<int64_t>(index, rows.depth - 1);
  const float* first = rows.base + first_row * rows.depth_stride;
  const int64_t matrix_stride = rows.matrices > 1 ? rows.matrix_stride : 0;
  RowClass result;
  result.first = static_cast<int>(reinterpret_cast<uintptr_t>(first) % 16 / sizeof(float));
  result.matrix_step = static_cast<int>(matrix_stride % kAligned);
  TensorBoxes& boxes = result.boxes;
  boxes = rows;
  boxes.base = first - result.first;
  boxes.outer = result.first + result.matrix_step * (rows.matrices - 1) + rows.outer;
  boxes.depth = (rows.depth - first_row + kRowClasses - 1) / kRowClasses;
  boxes.depth_stride = kRowClasses * rows.depth_stride;
  boxes.matrix_stride = matrix_stride - result.matrix_step;
  if (boxes.matrix_stride == 0) boxes.matrices = 1;
  if (first_row < index) {
    result.first = static_cast<int>((boxes.outer + kAligned - 1) / kAligned * kAligned);
  }
  boxes.box_depth = rows.box_depth / kRowClasses;
  return result;
}

bool FitRowClasses(const TensorBoxes& rows) {
  constexpr int64_t kStride = int64_t{1} << 38;      // elements
  constexpr int64_t kCoordinate = int64_t{1} << 29;  // an int, with room for two of them
  return rows.outer < kCoordinate && rows.matrices < kCoordinate / kAligned &&
         rows.depth / kRowClasses < kCoordinate && rows.depth_stride < kStride / kRowClasses &&
         (rows.matrices == 1 || rows.matrix_stride < kStride);
}

}  // namespace gemm
