// The second pass of stream_k and stream_k_quarters: adds the parts of every cut tile in order and
// applies alpha, beta and C.

#ifndef GEMMD_KERNELS_FAMILIES_ADD_PARTS_H_
#define GEMMD_KERNELS_FAMILIES_ADD_PARTS_H_

#include <cuda_runtime_api.h>

#include "kernels/families/ffma_gemm.h"

namespace gemm {

cudaError_t PrepareAddParts();

// Enqueued behind the kernel that writes the parts; may start before that one has ended.
// `tile_m` is 128, 256 or 64.
cudaError_t LaunchAddParts(const FfmaGemm& g, int tile_m, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_ADD_PARTS_H_
