// Shared memory by its 32-bit address, as the asynchronous instructions take it.

#ifndef GEMMD_KERNELS_PTX_SHARED_MEMORY_CUH_
#define GEMMD_KERNELS_PTX_SHARED_MEMORY_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace gemm {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// As LoadShared4.
__device__ __forceinline__ float LoadShared(uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address));
  return v;
}

__device__ __forceinline__ double LoadSharedF64(uint32_t address) {
  double v;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v) : "r"(address));
  return v;
}

// 16 bytes from a 16-byte aligned address. Volatile, so that loads stay where the pipeline has put
// them; it does not order other memory operations.
__device__ __forceinline__ float4 LoadShared4(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address));
  return v;
}

__device__ __forceinline__ void StoreShared(uint32_t address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

__device__ __forceinline__ void StoreSharedF64(uint32_t address, double v) {
  asm volatile("st.shared.f64 [%0], %1;" ::"r"(address), "d"(v) : "memory");
}

__device__ __forceinline__ void StoreShared4(uint32_t address, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_PTX_SHARED_MEMORY_CUH_
