// The body that ffma_streams.py fills: a loop of 8 k-steps of 128 FFMAs. 256 threads are 2 warps a
// scheduler. (ptxas hoists the six loads out of the loop, so that it is FFMAs and 3 instructions of
// control; they make it keep 24 registers for what the generator's own loads write.)

#include <cuda_runtime.h>

#include <cstdint>

extern "C" __global__ __launch_bounds__(256, 1) void FfmaStream(float* out, int passes,
                                                                float seed) {
  __shared__ float shared[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) shared[i] = seed * i;
  __syncthreads();
  float c[128], a[8], b[16], t[24];
  for (int i = 0; i < 128; ++i) c[i] = seed * i;
  for (int i = 0; i < 8; ++i) a[i] = seed + i;
  for (int i = 0; i < 16; ++i) b[i] = seed - i;
  for (int i = 0; i < 24; ++i) t[i] = 0;
  uint32_t address = (uint32_t)__cvta_generic_to_shared(shared) + threadIdx.x * 16;
  long long start = clock64();
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        if (j < 6) {
          asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                       : "=f"(t[j * 4]), "=f"(t[j * 4 + 1]), "=f"(t[j * 4 + 2]), "=f"(t[j * 4 + 3])
                       : "r"(address + k * 1024 + j * 128));
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(c[j * 8 + i]) : "f"(a[i]), "f"(b[j]));
        }
      }
    }
  }
  long long stop = clock64();
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += c[i];
  for (int i = 0; i < 24; ++i) sum += t[i];
  for (int i = 0; i < 8; ++i) sum += a[i];
  for (int i = 0; i < 16; ++i) sum += b[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) ((long long*)(out + 132 * 256))[blockIdx.x] = stop - start;
}
