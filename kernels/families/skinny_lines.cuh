// What the kernels of skinny_lines.h share: who sums what, and loads that end where a chunk does.

#ifndef GEMMD_KERNELS_FAMILIES_SKINNY_LINES_CUH_
#define GEMMD_KERNELS_FAMILIES_SKINNY_LINES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/divisor.cuh"
#include "kernels/families/skinny_gemm.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {

// Loads of a thread that are under way.
inline constexpr int kLineLoads = 32;

// A strip of a matrix, or one of its chunks.
struct LineItem {
  int strip;
  int part;
  int batch;

  __device__ __forceinline__ LineItem(const SkinnyGemm& g, int item) {
    const int rest = Quotient(item, g.line.by_strips);
    strip = item - rest * g.line.strips;
    batch = Quotient(rest, g.line.by_parts);
    part = rest - batch * g.line.parts;
  }
};

// What warps that share a strip sum at the same time: so many of its chunks, from `first` on.
struct LineTurn {
  int item;
  int first;

  __device__ __forceinline__ LineTurn(const SkinnyGemm& g, int the_item) : item(the_item) {
    first = g.line.parts > 1 && item < g.line.items ? LineItem(g, item).part : 0;
  }
  // Whether it is the last of its item.
  __device__ __forceinline__ bool Ends(const SkinnyGemm& g) const {
    return g.line.parts > 1 || first + g.line.share >= g.chunks;
  }
  __device__ __forceinline__ LineTurn Next(const SkinnyGemm& g, int item_step) const {
    if (Ends(g)) return LineTurn(g, item + item_step);
    LineTurn next = *this;
    next.first += g.line.share;
    return next;
  }
};

__device__ __forceinline__ int ChunkCount(const SkinnyGemm& g, int chunk) {
  return static_cast<int>(min(g.p.k - chunk * g.chunk_length, g.chunk_length));
}

// Of global memory, as the compiler cannot tell of an address that it is kept from computing anew.
// kOnce: what no other thread reads, which need not stay in the L1 cache (1 us less of 18 at
// 4096 x 1 x 4096; of eight warps that share a strip, 4 more of 15).
template <bool kOnce>
__device__ __forceinline__ float LoadGlobal(const float* from) {
  float value;
  if constexpr (kOnce) {
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(from));
  } else {
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
  }
  return value;
}

// The same if index < left, else `other`. Written so that the register is not another one at first,
// from which it would have to be moved, waiting for the load.
template <bool kOnce>
__device__ __forceinline__ float LoadIf(const float* from, int index, int left, float other) {
  float value;
  if constexpr (kOnce) {
    asm volatile(
        "{\n"
        ".reg .pred any;\n"
        "setp.lt.s32 any, %2, %3;\n"
        "mov.f32 %0, %4;\n"
        "@any ld.global.nc.L1::no_allocate.f32 %0, [%1];\n"
        "}"
        : "=f"(value)
        : "l"(from), "r"(index), "r"(left), "f"(other));
  } else {
    asm volatile(
        "{\n"
        ".reg .pred any;\n"
        "setp.lt.s32 any, %2, %3;\n"
        "mov.f32 %0, %4;\n"
        "@any ld.global.f32 %0, [%1];\n"
        "}"
        : "=f"(value)
        : "l"(from), "r"(index), "r"(left), "f"(other));
  }
  return value;
}

// A product of these adds nothing, not even to -0.
inline constexpr float kNoX = -0.0F;
inline constexpr float kNoMatrix = 0.0F;

__device__ __forceinline__ void StoreLine(const SkinnyGemm& g, int batch, int64_t j, float total) {
  StoreElement(g.p, batch, g.x_is_a ? 0 : j, g.x_is_a ? j : 0, total);
}
__device__ __forceinline__ void StorePart(const SkinnyGemm& g, const LineItem& at, int64_t j,
                                          float sum) {
  g.partial[(int64_t{at.part} * g.p.batch_count + at.batch) * g.pitch + j] = sum;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_SKINNY_LINES_CUH_
