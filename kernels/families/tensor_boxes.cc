#include "kernels/families/tensor_boxes.h"

#include <cudaTypedefs.h>

#include <atomic>

#include "kernels/cuda_status.h"

namespace gemm {
namespace {

// From the driver, which is not linked: programs must start without one.
std::atomic<PFN_cuTensorMapEncodeTiled_v12000> encode_tiled = nullptr;

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

}  // namespace gemm
