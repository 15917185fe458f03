#include "device/transpose.cuh"
#include "harness/lab.h"

namespace lab {
namespace {

__global__ void Fill(float* p, size_t size, unsigned seed, bool integers) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < size;
       i += (size_t)gridDim.x * blockDim.x) {
    unsigned x = (unsigned)i * 2654435761u + seed * 0x9e3779b9u;
    x ^= x >> 16;
    x *= 0x85ebca6b;
    x ^= x >> 13;
    x *= 0xc2b2ae35;
    x ^= x >> 16;
    p[i] = integers ? (float)((int)(x % 5u) - 2) : (x >> 8) * (2.0f / 16777216.0f) - 1.0f;
  }
}

__global__ void ReferenceKernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float at[32][33], bt[32][33];
  int tx = threadIdx.x, ty = threadIdx.y, row0 = blockIdx.y * 32;
  size_t column = blockIdx.x * 32 + tx;
  float sum[4] = {0, 0, 0, 0};
  for (int k0 = 0; k0 < k; k0 += 32) {
    for (int q = 0; q < 4; ++q) {
      int y = ty + q * 8;
      at[y][tx] = (row0 + y < m && k0 + tx < k) ? a[(size_t)(row0 + y) * k + k0 + tx] : 0;
      bt[y][tx] = (k0 + y < k && column < n) ? b[(size_t)(k0 + y) * n + column] : 0;
    }
    __syncthreads();
    int depth = min(32, k - k0);
    for (int kk = 0; kk < depth; ++kk) {
      for (int q = 0; q < 4; ++q) sum[q] = fmaf(at[ty + q * 8][kk], bt[kk][tx], sum[q]);
    }
    __syncthreads();
  }
  for (int q = 0; q < 4; ++q) {
    int row = row0 + ty + q * 8;
    if (row < m && column < n) c[(size_t)row * n + column] = sum[q];
  }
}

__global__ void CompareKernel(const float* x, const float* y, size_t size, unsigned* out) {
  unsigned different = 0, nans = 0;
  float largest = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < size;
       i += (size_t)gridDim.x * blockDim.x) {
    if (isnan(x[i])) {
      ++nans;
      continue;
    }
    different += x[i] != y[i];
    largest = fmaxf(largest, fabsf(x[i] - y[i]));
  }
  if (different) atomicAdd(out, different);
  if (nans) atomicAdd(out + 1, nans);
  atomicMax(out + 2, __float_as_uint(largest));
}

}  // namespace

void FillIntegers(float* p, size_t size, unsigned seed, cudaStream_t stream) {
  Fill<<<1024, 256, 0, stream>>>(p, size, seed, true);
}

void FillReals(float* p, size_t size, unsigned seed, cudaStream_t stream) {
  Fill<<<1024, 256, 0, stream>>>(p, size, seed, false);
}

void MakeTransposed(const OperandSet& set, const Shape& shape, cudaStream_t stream) {
  dim3 grid((shape.k + 63) / 64, (shape.m + 63) / 64);
  Transpose<<<grid, 256, 0, stream>>>(set.a, set.a_transposed, shape.m, shape.k);
}

void Reference(const OperandSet& set, float* c, const Shape& shape, cudaStream_t stream) {
  dim3 grid((shape.n + 31) / 32, (shape.m + 31) / 32);
  ReferenceKernel<<<grid, dim3(32, 8), 0, stream>>>(set.a, set.b, c, shape.m, shape.n, shape.k);
}

Difference Compare(const float* x, const float* y, size_t size, cudaStream_t stream) {
  static unsigned* out = nullptr;
  if (out == nullptr) LAB_CHECK(cudaMalloc(&out, 12));
  LAB_CHECK(cudaMemsetAsync(out, 0, 12, stream));
  CompareKernel<<<512, 256, 0, stream>>>(x, y, size, out);
  Difference difference;
  static_assert(sizeof(difference) == 12, "as the kernel writes it");
  LAB_CHECK(cudaMemcpyAsync(&difference, out, 12, cudaMemcpyDeviceToHost, stream));
  LAB_CHECK(cudaStreamSynchronize(stream));
  LAB_CHECK(cudaGetLastError());
  return difference;
}

}  // namespace lab
