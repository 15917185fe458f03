// Part of the skinny family: batches of 5 to 32 rows (skinny.cu has the picture and the terms)
// whose strips fill the device, wherever rows and matrices begin.
//
// One block a multiprocessor stays, and takes every so many-th strip of all matrices. A stage of
// its ring is a round of 256 products: 32 for each of 8 warps, which multiply, while 4 more warps
// fill the stages that are free, of whatever strip or matrix is next. So nothing stops between
// strips but for adding the warps' sums; the class and the bits are those of the products alone.
//
//   The matrix   comes by boxes of each fourth row, as skinny's. Where matrices begin anywhere, of
//                four in turn each is otherwise shifted: 16 tensor maps. A box has 128 products of
//                a row, or a strip's lines of 256, for four warps or all.
//   x            comes by cp.async of 4 bytes, along what is contiguous.
//   A thread's   sums are 16 x 8 or 16 x 4, of x's rows as many as there are, by fours.
//   Sums         of the warps meet in shared memory 16 bytes at a time: up to 16 rows in places of
//                their own, while all stages are on their way; beyond, where the last stage was.
//
// kernels/stories/narrow.md tells what was tried.

#include <algorithm>

#include "kernels/cuda_status.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/launch_records.h"
#include "kernels/families/skinny_batch.cuh"
#include "kernels/families/skinny_batch.h"

namespace gemm {
namespace {

struct BatchMaps {
  CUtensorMap of[kBatchPhases][kSkinnyQuarters];
};

template <int kRows>
__global__ void __launch_bounds__(kBatchThreads, 1)
    SkinnyBatch(const __grid_constant__ BatchMaps maps, const __grid_constant__ SkinnyGemm g) {
#if __CUDA_ARCH__ >= 900
  if (g.matrix_column == 1) {
    SkinnyBatchMultiply<kRows, true>(g, maps.of[0]);
  } else {
    SkinnyBatchMultiply<kRows, false>(g, maps.of[0]);
  }
#endif
}

// The boxes of each fourth row, from the `quarter`th on, of each fourth matrix, from the `phase`th.
TensorBoxes QuarterOf(const TensorBoxes& whole, int phase, int quarter, int strip, bool along) {
  TensorBoxes boxes = whole;
  const float* row = whole.base + phase * whole.matrix_stride + quarter * whole.depth_stride;
  const auto shift = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(float) % 4);
  boxes.base = row - shift;
  boxes.outer += shift;
  boxes.depth = TilesOf(whole.depth - quarter, kSkinnyQuarters);
  boxes.depth_stride *= kSkinnyQuarters;
  boxes.matrices = TilesOf(whole.matrices - phase, kBatchPhases);
  boxes.matrix_stride *= kBatchPhases;
  boxes.box_outer = BatchBoxOuter(strip, along);
  boxes.box_depth = (along ? strip : kLaneRound) / kSkinnyQuarters;
  return boxes;
}

template <int kRows>
constexpr size_t SharedBytes() {
  return std::max(BatchShape<kRows, true>::kSharedBytes, BatchShape<kRows, false>::kSharedBytes);
}

template <int kRows>
cudaError_t LaunchRows(const SkinnyGemm& g, const BatchMaps& maps, unsigned blocks,
                       cudaStream_t stream) {
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kBatchThreads);
  config.dynamicSmemBytes = SharedBytes<kRows>();
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, SkinnyBatch<kRows>, maps, g);
}

}  // namespace

cudaError_t PrepareSkinnyBatch() {
  GEMM_RETURN_IF_CUDA_ERROR(
      LoadKernel(reinterpret_cast<const void*>(&SkinnyBatch<16>), SharedBytes<16>()));
  return LoadKernel(reinterpret_cast<const void*>(&SkinnyBatch<32>), SharedBytes<32>());
}

cudaError_t LaunchSkinnyBatch(const SkinnyGemm& g, const TensorBoxes& matrix, unsigned blocks,
                              cudaStream_t stream) {
  const bool along = g.matrix_column == 1;
  BatchMaps maps = {};
  for (int phase = 0; phase < kBatchPhases && phase < matrix.matrices; ++phase) {
    for (int q = 0; q < kSkinnyQuarters; ++q) {
      GEMM_RETURN_IF_CUDA_ERROR(MakeTensorMap(
          QuarterOf(matrix, phase, q, SkinnyStrip(g.rows), along), &maps.of[phase][q]));
    }
  }
  return g.rows <= 16 ? LaunchRows<16>(g, maps, blocks, stream)
                      : LaunchRows<32>(g, maps, blocks, stream);
}

}  // namespace gemm
