// The second pass of kernels that sum k in chunks: adds the chunks in order and applies alpha, beta
// and C.

#ifndef GEMMD_KERNELS_FAMILIES_ADD_CHUNKS_H_
#define GEMMD_KERNELS_FAMILIES_ADD_CHUNKS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/families/strided_gemm.h"

namespace gemm {

// Sums of one chunk each, [chunk][batch][m][pitch].
struct ChunkSums {
  const float* partial = nullptr;
  int64_t pitch = 0;
  int chunks = 0;
  bool across = false;  // [chunk][batch][n][pitch] instead
};

cudaError_t PrepareAddChunks();

// Enqueued behind the kernel that writes the sums; may start before that one has ended.
cudaError_t LaunchAddChunks(const StridedGemm<float>& p, const ChunkSums& sums,
                            cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_ADD_CHUNKS_H_
