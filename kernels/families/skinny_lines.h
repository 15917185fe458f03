// Products of the skinny family whose x is one line, from registers: a single result, and a row of
// them where k is not contiguous in the matrix and its rows begin anywhere.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/families/skinny_gemm.h"

namespace gemm {

inline constexpr int kLineStrip = 64;  // of j, a pair of blocks
inline constexpr int kLinePair = 2;

// `lone_shared_bytes`: so much shared memory is more than half of a multiprocessor's.
cudaError_t PrepareSkinnyLines(bool clusters, size_t lone_shared_bytes);

// A block for each of g.chunk_blocks and plane.
cudaError_t LaunchSkinnyDot(const SkinnyGemm& g, unsigned planes, cudaStream_t stream);

// A pair of blocks, which meet in a cluster, for each strip, of g.chunk_blocks and plane. With
// g.alone no two blocks share a multiprocessor.
cudaError_t LaunchSkinnyLine(const SkinnyGemm& g, unsigned planes, size_t lone_shared_bytes,
                             cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_
