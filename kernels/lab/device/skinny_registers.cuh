// C (m x n) = alpha A (m x k) B (k x n), m <= kRows, strict FP32: the best for m <= 4.
//
// A CTA owns a strip of 4 * kColumnGroups columns and, of k, slab blockIdx.y. Its warps split the
// slab; the lanes of a warp are kColumnGroups groups of 4 columns x 32 / kColumnGroups rows of B. B
// goes from memory to registers, kUnroll rows ahead, A through shared memory, 64 k at a time. Sums
// meet in shared memory in a fixed order; with several slabs they are parts for add_parts.cuh.

#ifndef GEMMD_KERNELS_LAB_DEVICE_SKINNY_REGISTERS_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_SKINNY_REGISTERS_CUH_

#include <cuda_runtime.h>

namespace lab {

template <int kRows, int kColumnGroups, int kWarps, int kUnroll>
struct SkinnyRegistersConfig {
  static constexpr int kRowGroups = 32 / kColumnGroups;
  static constexpr int kColumns = 4 * kColumnGroups;
  static constexpr int kPitch = kRows >= 8 ? kRows + 4 : kRows < 4 ? 4 : kRows;
  static constexpr int kChunk = 64;  // k that are staged at once
  static constexpr int kStagedBytes = kWarps * kChunk * kPitch * 4;
  static constexpr int kSumBytes = kWarps * kRowGroups * kRows * kColumnGroups * 16;
  static constexpr int kSharedBytes = kStagedBytes > kSumBytes ? kStagedBytes : kSumBytes;
  static_assert(kChunk % (2 * kUnroll * kRowGroups) == 0, "a chunk is whole double steps");
};

template <int kRows, int kColumnGroups, int kWarps, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32, 1)
    SkinnyRegisters(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                    int m, int n, int k, int slab, int k_per_warp, float alpha) {
  using F = SkinnyRegistersConfig<kRows, kColumnGroups, kWarps, kUnroll>;
  constexpr int kRowGroups = F::kRowGroups, kPitch = F::kPitch, kChunk = F::kChunk;
  extern __shared__ __align__(16) float shared[];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, column_group = lane % kColumnGroups,
      g = lane / kColumnGroups;
  int column = blockIdx.x * F::kColumns + column_group * 4,
      k_begin = blockIdx.y * slab + warp * k_per_warp,
      k_end = min(min(k_begin + k_per_warp, (int)(blockIdx.y + 1) * slab), k);
  float* staged = shared + warp * kChunk * kPitch;  // [kChunk][kPitch], this warp's
  int k_count = max(0, k_end - k_begin), steps = (k_count + kRowGroups - 1) / kRowGroups;
  bool column_in = column < n;
  const float* from_b = b + (size_t)(k_begin + g) * n + (column_in ? column : 0);
  float4 b0[kUnroll], b1[kUnroll];
  auto fetch = [&](float4(&x)[kUnroll], int step) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      int kk = (step + u) * kRowGroups + g;
      x[u] = (kk < k_count && column_in)
                 ? __ldcs((const float4*)(from_b + (size_t)(step + u) * kRowGroups * n))
                 : make_float4(0, 0, 0, 0);
    }
  };
  fetch(b0, 0);
  auto stage = [&](int k0) {
    __syncwarp();
#pragma unroll 4
    for (int q = lane; q < kRows * (kChunk / 4); q += 32) {
      int r = q / (kChunk / 4), kk = (q % (kChunk / 4)) * 4;
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        v[e] = (r < m && k0 + kk + e < k_count) ? __ldg(a + (size_t)r * k + k_begin + k0 + kk + e)
                                                : 0.f;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) staged[(kk + e) * kPitch + r] = v[e];
    }
    __syncwarp();
  };
  float sum[kRows][4];
#pragma unroll
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = 0.f;
  auto multiply = [&](const float4(&x)[kUnroll], int step) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const float* from = staged + (((step + u) * kRowGroups) % kChunk + g) * kPitch;
      float v[kRows];
      if constexpr (kRows >= 4) {
#pragma unroll
        for (int r = 0; r < kRows; r += 4) {
          float4 w = *(const float4*)(from + r);
          v[r] = w.x;
          v[r + 1] = w.y;
          v[r + 2] = w.z;
          v[r + 3] = w.w;
        }
      } else {
#pragma unroll
        for (int r = 0; r < kRows; ++r) v[r] = from[r];
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        sum[r][0] = fmaf(v[r], x[u].x, sum[r][0]);
        sum[r][1] = fmaf(v[r], x[u].y, sum[r][1]);
        sum[r][2] = fmaf(v[r], x[u].z, sum[r][2]);
        sum[r][3] = fmaf(v[r], x[u].w, sum[r][3]);
      }
    }
  };
  for (int step = 0; step < steps; step += 2 * kUnroll) {
    if ((step * kRowGroups) % kChunk == 0) stage(step * kRowGroups);
    fetch(b1, step + kUnroll);
    multiply(b0, step);
    if (step + kUnroll < steps) {
      fetch(b0, step + 2 * kUnroll);
      multiply(b1, step + kUnroll);
    }
  }
  __syncthreads();
  float4* parts = (float4*)shared;  // [warp][row group][row][column group]
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    parts[((warp * kRowGroups + g) * kRows + r) * kColumnGroups + column_group] =
        make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
  }
  __syncthreads();
  float* out = c + (size_t)blockIdx.y * m * n;
  for (int e = threadIdx.x; e < kRows * kColumnGroups; e += kWarps * 32) {
    float4 v = parts[e];
#pragma unroll 8
    for (int z = 1; z < kWarps * kRowGroups; ++z) {
      float4 w = parts[z * kRows * kColumnGroups + e];
      v.x += w.x;
      v.y += w.y;
      v.z += w.z;
      v.w += w.w;
    }
    int r = e / kColumnGroups, to = blockIdx.x * F::kColumns + (e % kColumnGroups) * 4;
    if (r < m && to < n) {
      *(float4*)(out + (size_t)r * n + to) =
          make_float4(alpha * v.x, alpha * v.y, alpha * v.z, alpha * v.w);
    }
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_SKINNY_REGISTERS_CUH_
