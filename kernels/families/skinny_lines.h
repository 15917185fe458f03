// Products of the skinny family whose x is one line, from registers: single results, rows of the
// matrix with k contiguous, and columns of one whose rows begin anywhere.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/families/skinny_gemm.h"

namespace gemm {

// Chunks of a row that meet in their block, at most, unless a batch fills the device.
inline constexpr int kMostMeeting = 16;

inline constexpr int kLinePair = 2;
// Columns of a pair of blocks at most: their threads have as many registers as they can use.
inline constexpr int kMostLineColumns = 92;

// `lone_shared_bytes`: so much shared memory is more than half of a multiprocessor's.
cudaError_t PrepareSkinnyLines(bool clusters, size_t lone_shared_bytes);

// g.dots of rows, for each of g.chunk_blocks and plane.
cudaError_t LaunchSkinnyDots(const SkinnyGemm& g, unsigned planes, cudaStream_t stream);

// Adds the chunks of single results, a block each.
cudaError_t LaunchSkinnyDotTotal(const SkinnyGemm& g, unsigned planes, cudaStream_t stream);

// A pair of blocks, which meet in a cluster, for each strip, of g.chunk_blocks and plane. With
// g.alone no two blocks share a multiprocessor.
cudaError_t LaunchSkinnyLine(const SkinnyGemm& g, unsigned blocks, unsigned planes,
                             size_t lone_shared_bytes, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_
