#include <algorithm>

#include "kernels/cuda_status.h"
#include "kernels/families/add_chunks.h"
#include "kernels/families/launch_attributes.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/families/sum_order.h"
#include "kernels/ptx/dependent_launch.cuh"

namespace gemm {
namespace {

constexpr int kThreads = 256;
// Beyond kFewChunks the loads of a thread, one behind the other, would take longer than the
// product: a block fetches the sums for so many elements at once.
constexpr int kColumns = 32;
constexpr int kRows = kThreads / kColumns;
// Loads of a thread that are under way before the first is waited for.
constexpr int kFewAtOnce = 8;
constexpr int kAtOnce = 16;
constexpr int kMostChunks = 256;  // 32 KiB of sums
constexpr int64_t kMaxBlocks = int64_t{1} << 20;

// Where the sum of an element's first chunk is: of element (row, j), rows of all matrices counted.
__device__ __forceinline__ const float* FirstChunk(const StridedGemm<float>& p,
                                                   const ChunkSums& sums, int64_t batch, int64_t i,
                                                   int64_t j) {
  return sums.partial +
         (sums.across ? (batch * p.n + j) * sums.pitch + i : (batch * p.m + i) * sums.pitch + j);
}

__device__ __forceinline__ int64_t ChunkStride(const StridedGemm<float>& p, const ChunkSums& sums) {
  return p.batch_count * (sums.across ? p.n : p.m) * sums.pitch;
}

__global__ void __launch_bounds__(kThreads)
    AddFewChunks(const StridedGemm<float> p, const ChunkSums sums) {
  LetKernelAfterStart();
  WaitForKernelBefore();
  const int64_t elements = p.batch_count * p.m * p.n;
  const int64_t chunk_stride = ChunkStride(p, sums);
  for (int64_t e = int64_t{blockIdx.x} * kThreads + threadIdx.x; e < elements;
       e += int64_t{gridDim.x} * kThreads) {
    // Divisions of 64 bits would take longer than the sum.
    const bool small = elements <= 0xffffffff;
    const int64_t row =
        small ? int64_t{static_cast<uint32_t>(e) / static_cast<uint32_t>(p.n)} : e / p.n;
    const int64_t j = e - row * p.n;
    const int64_t batch =
        small ? int64_t{static_cast<uint32_t>(row) / static_cast<uint32_t>(p.m)} : row / p.m;
    const float* from = FirstChunk(p, sums, batch, row - batch * p.m, j);
    float total = from[0];
    for (int first = 1; first < sums.chunks; first += kFewAtOnce) {
      float part[kFewAtOnce];
#pragma unroll
      for (int i = 0; i < kFewAtOnce; ++i) {
        if (first + i < sums.chunks) part[i] = from[(first + i) * chunk_stride];
      }
#pragma unroll
      for (int i = 0; i < kFewAtOnce; ++i) {
        if (first + i < sums.chunks) total = __fadd_rn(total, part[i]);
      }
    }
    StoreElement(p, batch, row - batch * p.m, j, total);
  }
}

__global__ void __launch_bounds__(kThreads)
    AddManyChunks(const StridedGemm<float> p, const ChunkSums sums) {
  __shared__ float fetched[kMostChunks][kColumns];
  LetKernelAfterStart();
  WaitForKernelBefore();
  const int x = static_cast<int>(threadIdx.x) % kColumns;
  const int y = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t rows = p.batch_count * p.m;
  const int64_t chunk_stride = ChunkStride(p, sums);
  const int64_t blocks_a_row = (p.n + kColumns - 1) / kColumns;
  for (int64_t block = blockIdx.x; block < rows * blocks_a_row; block += gridDim.x) {
    const int64_t row = block / blocks_a_row;
    const int64_t j = (block - row * blocks_a_row) * kColumns + x;
    const int64_t batch = row / p.m;
    const float* from = FirstChunk(p, sums, batch, row - batch * p.m, j);
    float total = 0;
    for (int c0 = 0; c0 < sums.chunks; c0 += kMostChunks) {
      const int count = min(kMostChunks, sums.chunks - c0);
      if (j < p.n) {
        for (int first = y; first < count; first += kAtOnce * kRows) {
          float part[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            const int c = first + i * kRows;
            if (c < count) part[i] = from[(c0 + c) * chunk_stride];
          }
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            const int c = first + i * kRows;
            if (c < count) fetched[c][x] = part[i];
          }
        }
      }
      __syncthreads();
      if (y == 0) {
        // The first sum as it is: 0 + -0 would not be.
        if (c0 == 0) total = fetched[0][x];
#pragma unroll 32
        for (int c = c0 == 0 ? 1 : 0; c < count; ++c) total = __fadd_rn(total, fetched[c][x]);
      }
      __syncthreads();
    }
    if (y == 0 && j < p.n) StoreElement(p, batch, row - batch * p.m, j, total);
  }
}

}  // namespace

cudaError_t PrepareAddChunks() {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, AddFewChunks));
  return cudaFuncGetAttributes(&attributes, AddManyChunks);
}

cudaError_t LaunchAddChunks(const StridedGemm<float>& p, const ChunkSums& sums,
                            cudaStream_t stream) {
  const bool few = sums.chunks <= kFewChunks;
  const int64_t rows = p.batch_count * p.m;
  const int64_t blocks =
      few ? (rows * p.n + kThreads - 1) / kThreads : rows * ((p.n + kColumns - 1) / kColumns);
  cudaLaunchAttribute early = StartsEarly();
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min(blocks, kMaxBlocks)));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, few ? AddFewChunks : AddManyChunks, p, sums);
}

}  // namespace gemm
