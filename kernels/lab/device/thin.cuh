// C (m x n) = alpha A (m x k) B (k x n), n <= kColumns, strict FP32: a warp owns kRows rows, its
// lanes lie along k; all of B sits in shared memory, so that a lane finds its four k x kColumns.

#ifndef GEMMD_KERNELS_LAB_DEVICE_THIN_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_THIN_CUH_

#include <cuda_runtime.h>

namespace lab {

template <int kColumns, int kRows, int kWarps, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32)
    Thin(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
         int n, int k, float alpha) {
  extern __shared__ __align__(16) float shared[];  // [k / 128, up][4][32 lanes][kColumns]
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, steps = (k + 127) / 128;
  int row0 = (blockIdx.x * kWarps + warp) * kRows;
  float4 ahead[kUnroll][kRows];
  auto fetch = [&](int step) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        int kk = (step + u) * 128 + lane * 4;
        ahead[u][r] = (step + u < steps && kk < k && row0 + r < m)
                          ? __ldcs((const float4*)(a + (size_t)(row0 + r) * k + kk))
                          : make_float4(0, 0, 0, 0);
      }
    }
  };
  fetch(0);
  if (kColumns == 4 && n == 4) {
#pragma unroll 8
    for (int kk = threadIdx.x; kk < steps * 128; kk += kWarps * 32) {
      *(float4*)(shared + ((kk >> 7) * 128 + (kk & 3) * 32 + ((kk & 127) >> 2)) * 4) =
          kk < k ? __ldg((const float4*)b + kk) : make_float4(0, 0, 0, 0);
    }
  } else {
    for (int q = threadIdx.x; q < steps * 128 * kColumns; q += kWarps * 32) {
      int kk = q / kColumns, j = q % kColumns;
      shared[((kk >> 7) * 128 + (kk & 3) * 32 + ((kk & 127) >> 2)) * kColumns + j] =
          (kk < k && j < n) ? b[(size_t)kk * n + j] : 0.f;
    }
  }
  __syncthreads();
  float sum[kRows][kColumns];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sum[r][j] = 0.f;
  }
  for (int step = 0; step < steps; step += kUnroll) {
    float4 x[kUnroll][kRows];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[u][r] = ahead[u][r];
    }
    fetch(step + kUnroll);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (step + u < steps) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float v[kColumns];
          const float* from = shared + (((step + u) * 4 + e) * 32 + lane) * kColumns;
          if constexpr (kColumns % 4 == 0) {
#pragma unroll
            for (int j = 0; j < kColumns; j += 4) {
              float4 w = *(const float4*)(from + j);
              v[j] = w.x;
              v[j + 1] = w.y;
              v[j + 2] = w.z;
              v[j + 3] = w.w;
            }
          } else {
#pragma unroll
            for (int j = 0; j < kColumns; ++j) v[j] = from[j];
          }
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            float w = e == 0 ? x[u][r].x : e == 1 ? x[u][r].y : e == 2 ? x[u][r].z : x[u][r].w;
#pragma unroll
            for (int j = 0; j < kColumns; ++j) sum[r][j] = fmaf(w, v[j], sum[r][j]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      float v = sum[r][j];
#pragma unroll
      for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
      if (lane == 0 && row0 + r < m && j < n) c[(size_t)(row0 + r) * n + j] = alpha * v;
    }
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_THIN_CUH_
