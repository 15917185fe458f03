// Products of the skinny family whose x is one line, from registers: those of a matrix with k
// contiguous, and single results (skinny_dots.cu), those with the columns side by side
// (skinny_columns.cu), and either summed sequentially (skinny_sequential.cu). Rows begin anywhere.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_
#define GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/families/launch_attributes.h"
#include "kernels/families/skinny_gemm.h"

namespace gemm {

// Columns: of a strip, as of sequential rows, warps that share one, chunks that are summed at once.
inline constexpr int kLineStrip = 32;
inline constexpr int kColumnWarps = 8;
inline constexpr int kMostChunksTogether = 2;
inline constexpr int kMostLineThreads = 256;  // where warps do not share

// Rows of a warp at once; chunks of a row that meet in their block, at most; rows, or groups of
// them, that do so in a block.
inline constexpr int kMostDotRows = 8;
inline constexpr int kMostMeeting = 16;
inline constexpr int kMostDotGroups = 8;
inline constexpr int kMostDotThreads = 512;

// Warps that a multiprocessor has the registers for.
inline constexpr int kLineWarpsTogether = 16;  // of dots, and of columns where they do not share
inline constexpr int kColumnWarpsTogether = 24;

// Blocks that stay, `places` of them a multiprocessor.
struct LineLaunch {
  unsigned blocks;
  unsigned threads;
  size_t shared_bytes;  // so many that no more than `places` fit
};

inline cudaError_t LaunchLine(const void* kernel, const SkinnyGemm& g, const LineLaunch& launch,
                              cudaStream_t stream) {
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.blocks);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = g.alone ? 1 : 0;
  SkinnyGemm args = g;
  void* parameters[] = {&args};
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

// `shared_bytes`: the most that a launch asks for.
cudaError_t PrepareSkinnyColumns(size_t shared_bytes);
cudaError_t PrepareSkinnyDots(size_t shared_bytes);
cudaError_t PrepareSkinnySequential(size_t shared_bytes);

cudaError_t LaunchSkinnyColumns(const SkinnyGemm& g, const LineLaunch& launch, cudaStream_t stream);
cudaError_t LaunchSkinnyDots(const SkinnyGemm& g, const LineLaunch& launch, cudaStream_t stream);
cudaError_t LaunchSkinnySequential(const SkinnyGemm& g, const LineLaunch& launch,
                                   cudaStream_t stream);
// Adds the chunks of single results, a block each.
cudaError_t LaunchSkinnyDotTotal(const SkinnyGemm& g, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_LINES_H_
