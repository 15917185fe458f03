// out[i] = the sum over `count` parts of parts[part][i], in a fixed order: 8 groups of consecutive
// parts, then the groups. A block adds 32 float4. Launched with programmatic stream serialization.

#ifndef GEMMD_KERNELS_LAB_DEVICE_ADD_PARTS_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_ADD_PARTS_CUH_

namespace lab {

__global__ void AddParts(const float4* __restrict__ parts, float4* __restrict__ out, int size4,
                         int count) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  __shared__ float4 sums[8][32];
  int x = threadIdx.x & 31, g = threadIdx.x >> 5, i = blockIdx.x * 32 + x, per = (count + 7) / 8;
  float4 v = make_float4(0, 0, 0, 0);
  if (i < size4) {
#pragma unroll 8
    for (int s = g * per; s < min(count, g * per + per); ++s) {
      float4 w = parts[(size_t)s * size4 + i];
      v.x += w.x;
      v.y += w.y;
      v.z += w.z;
      v.w += w.w;
    }
  }
  sums[g][x] = v;
  __syncthreads();
  if (g == 0 && i < size4) {
    int groups = (count + per - 1) / per;
    for (int q = 1; q < groups; ++q) {
      float4 w = sums[q][x];
      v.x += w.x;
      v.y += w.y;
      v.z += w.z;
      v.w += w.w;
    }
    out[i] = v;
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_ADD_PARTS_CUH_
