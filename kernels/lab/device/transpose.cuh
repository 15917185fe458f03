// to (k x m) = from (m x k) transposed, both row-major. It is part of the time of every variant
// that is named "transposing".

#ifndef GEMMD_KERNELS_LAB_DEVICE_TRANSPOSE_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_TRANSPOSE_CUH_

namespace lab {

__global__ void Transpose(const float* __restrict__ from, float* __restrict__ to, int m, int k) {
  __shared__ float tile[64][65];
  int k0 = blockIdx.x * 64, m0 = blockIdx.y * 64, x = threadIdx.x & 63, y = threadIdx.x >> 6;
#pragma unroll
  for (int r = 0; r < 16; ++r) {
    int row = m0 + y + r * 4;
    if (row < m && k0 + x < k) tile[y + r * 4][x] = from[(size_t)row * k + k0 + x];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 16; ++r) {
    int row = k0 + y + r * 4;
    if (row < k && m0 + x < m) to[(size_t)row * m + m0 + x] = tile[x][y + r * 4];
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_TRANSPOSE_CUH_
