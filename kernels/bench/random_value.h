// Reproducible values from an index, the same on host and device, so that operands too large to
// copy can be sampled.

#ifndef GEMMD_KERNELS_BENCH_RANDOM_VALUE_H_
#define GEMMD_KERNELS_BENCH_RANDOM_VALUE_H_

#include <cstdint>

#ifdef __CUDACC__
#define GEMM_HOST_DEVICE __host__ __device__
#else
#define GEMM_HOST_DEVICE
#endif

namespace gemm {

// splitmix64 of the index.
GEMM_HOST_DEVICE inline uint64_t RandomBits(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// An integer in [-range, range].
GEMM_HOST_DEVICE inline int RandomInteger(uint64_t seed, uint64_t index, int range) {
  return static_cast<int>((RandomBits(seed, index) >> 33) %
                          (2u * static_cast<unsigned>(range) + 1)) -
         range;
}

// A multiple of 2^-52 in [-1, 1).
GEMM_HOST_DEVICE inline double RandomReal(uint64_t seed, uint64_t index) {
  return static_cast<double>(RandomBits(seed, index) >> 11) * 0x1p-52 - 1.0;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_RANDOM_VALUE_H_
