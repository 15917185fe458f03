// Batches of narrow products that fill the device, wherever their rows and matrices begin:
// skinny_batch.cu has the kernel.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_BATCH_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_BATCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/families/skinny_gemm.h"
#include "kernels/families/sum_order.h"
#include "kernels/families/tensor_boxes.h"

namespace gemm {

inline constexpr int64_t kMostBatchRows = 32;

// Elements of a row of a box of each fourth row: half a round of k, or a strip of lines, and what
// comes before the first where that is not at a multiple of 16 bytes.
constexpr int BatchBoxOuter(int strip, bool along) {
  return along ? kLaneRound / 2 + 4 : QuarteredPitch(strip, false);
}

cudaError_t PrepareSkinnyBatch();

// Persistent blocks, which share out the strips of all matrices. `matrix`: all of it, as if its
// rows and matrices were aligned, but for its boxes.
cudaError_t LaunchSkinnyBatch(const SkinnyGemm& g, const TensorBoxes& matrix, unsigned blocks,
                              cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_BATCH_H_
