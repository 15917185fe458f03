// register: two levels of tiles. A block of 16 x 16 threads stages tiles of A and B in shared
// memory; a thread keeps an R x R block of D in registers (R = tile / 16), so that R + R loads from
// shared memory feed R^2 multiply-adds.
//
//                       B  k x tile, 8 rows at a time
//                       | 4 cols |...| 4 cols |      a thread's columns, in groups of 4 that are
//                       |        |   |        |      64 apart: a warp's 16-byte loads are then
//    A, 8 columns       +--------+---+--------+      consecutive
//    at a time   4 rows |  4x4   |   |  4x4   |
//                  ...  |        |   |        |      D tile x tile
//                4 rows |  4x4   |   |  4x4   |
//                       +--------+---+--------+
//
// Shared memory, twice over, so that the next tiles land while these are used and one barrier a
// step is enough: A as [8][tile + 4] (transposed, so that a thread's rows are consecutive) and B as
// [8][tile + 4]. The 4 elements of padding put the 8 x 4 elements that a warp stores at once, when
// k runs fastest in memory, into 32 different banks. 128 x 128: 16.5 KiB.
//
// Budget: 128 registers (two blocks a multiprocessor): 64 sums, 16 operands, 8 elements on their
// way from global memory, the rest addresses.
//
// The 8 x 8 kernel reaches half of the peak: 4 loads of 16 bytes from shared memory for 64
// multiply-adds, and 8 guarded loads of 4 bytes a step. 4 x 4 halves the first ratio and is a third
// slower on large products, but its smaller tiles fill the device sooner.
//
// General in shape: every element is loaded by itself behind a guard. Which index of an operand
// runs fastest over the threads follows its strides, so that all four transpositions coalesce.

#include "kernels/families/families.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30, of f32 by bench/fit_costs.py.
constexpr SimtConfig kConfigs[] = {
    {"register_f32_128x128x8", DType::kF32, 128, 128, 8, 256, 0.559, 0.467, 23.4, 0.348, 3.89e-6},
    {"register_f32_64x64x8", DType::kF32, 64, 64, 8, 256, 0.402, 0.23, 0, 0.184, 1.99e-6},
    {"register_f64_64x64x8", DType::kF64, 64, 64, 8, 256, 0.312, 0.29, 20.7, 1, 2.9e-6},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

constexpr int kThreadsX = 16;
constexpr int kThreads = 256;
constexpr int kGroup = 4;                         // rows or columns that a thread has in a row
constexpr int kGroupStride = kGroup * kThreadsX;  // from one group of a thread to its next

__device__ inline void Load4(const float* from, float* to) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
__device__ inline void Load4(const double* from, double* to) {
  const double2 v = *reinterpret_cast<const double2*>(from);
  const double2 w = *reinterpret_cast<const double2*>(from + 2);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = w.x;
  to[3] = w.y;
}

// Which elements of a tile of one operand a thread brings in: the first, and the step to each next.
// `kOuter` counts the rows of A or columns of B that the tile covers.
template <int kOuter, int kTileK>
struct Share {
  static constexpr int kCount = kOuter * kTileK / kThreads;
  static_assert(kOuter * kTileK % kThreads == 0, "every thread brings in as many elements");
  static_assert(kThreads % kOuter == 0 && kThreads % kTileK == 0, "steps stay in one direction");

  __device__ Share(int thread, bool k_is_contiguous)
      : outer(k_is_contiguous ? thread / kTileK : thread % kOuter),
        k(k_is_contiguous ? thread % kTileK : thread / kOuter),
        outer_step(k_is_contiguous ? kThreads / kTileK : 0),
        k_step(k_is_contiguous ? 0 : kThreads / kOuter) {}

  int outer;
  int k;
  int outer_step;
  int k_step;
};

template <int I>
__global__ void __launch_bounds__(kConfigs[I].threads, 2)
    RegisterBlocked(const StridedGemm<ElementOf<kConfigs[I].dtype>> p) {
  using T = ElementOf<kConfigs[I].dtype>;
  constexpr int kTileM = kConfigs[I].tile_m;
  constexpr int kTileN = kConfigs[I].tile_n;
  constexpr int kTileK = kConfigs[I].tile_k;
  constexpr int kRows = kTileM / kThreadsX;
  constexpr int kColumns = kTileN / kThreadsX;
  static_assert(kConfigs[I].threads == kThreads, "16 x 16 threads");
  static_assert(kRows % kGroup == 0 && kColumns % kGroup == 0, "operands are read four at a time");
  __shared__ alignas(16) T a_tile[2][kTileK][kTileM + kGroup];
  __shared__ alignas(16) T b_tile[2][kTileK][kTileN + kGroup];

  const int thread = static_cast<int>(threadIdx.x);
  const int y = thread / kThreadsX;
  const int x = thread % kThreadsX;
  const Share<kTileM, kTileK> a_share(thread, p.a_column == 1);
  const Share<kTileN, kTileK> b_share(thread, p.b_column != 1);
  const int64_t a_step = a_share.outer_step * p.a_row + a_share.k_step * p.a_column;
  const int64_t b_step = b_share.outer_step * p.b_column + b_share.k_step * p.b_row;

  ForEachTile<kTileM, kTileN>(p, [&](int64_t batch, int64_t row0, int64_t column0) {
    const int rows = static_cast<int>(min(p.m - row0, int64_t{kTileM}));
    const int columns = static_cast<int>(min(p.n - column0, int64_t{kTileN}));
    const T* a =
        p.a + batch * p.a_batch + (row0 + a_share.outer) * p.a_row + a_share.k * p.a_column;
    const T* b =
        p.b + batch * p.b_batch + (column0 + b_share.outer) * p.b_column + b_share.k * p.b_row;

    T a_next[a_share.kCount];
    T b_next[b_share.kCount];
    // Brings the next tiles, of `depth` products, on their way into registers.
    const auto fetch = [&](int depth) {
#pragma unroll
      for (int i = 0; i < a_share.kCount; ++i) {
        const bool inside =
            a_share.outer + i * a_share.outer_step < rows && a_share.k + i * a_share.k_step < depth;
        a_next[i] = inside ? __ldg(a + i * a_step) : T{0};
      }
#pragma unroll
      for (int i = 0; i < b_share.kCount; ++i) {
        const bool inside = b_share.outer + i * b_share.outer_step < columns &&
                            b_share.k + i * b_share.k_step < depth;
        b_next[i] = inside ? __ldg(b + i * b_step) : T{0};
      }
      a += kTileK * p.a_column;
      b += kTileK * p.b_row;
    };
    const auto stage = [&](int buffer) {
#pragma unroll
      for (int i = 0; i < a_share.kCount; ++i) {
        a_tile[buffer][a_share.k + i * a_share.k_step][a_share.outer + i * a_share.outer_step] =
            a_next[i];
      }
#pragma unroll
      for (int i = 0; i < b_share.kCount; ++i) {
        b_tile[buffer][b_share.k + i * b_share.k_step][b_share.outer + i * b_share.outer_step] =
            b_next[i];
      }
    };

    T sum[kRows][kColumns] = {};
    const auto accumulate = [&](int buffer, int l) {
      T a_part[kRows];
      T b_part[kColumns];
#pragma unroll
      for (int g = 0; g < kRows / kGroup; ++g) {
        Load4(&a_tile[buffer][l][y * kGroup + g * kGroupStride], &a_part[g * kGroup]);
      }
#pragma unroll
      for (int g = 0; g < kColumns / kGroup; ++g) {
        Load4(&b_tile[buffer][l][x * kGroup + g * kGroupStride], &b_part[g * kGroup]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum[r][c] = MultiplyAdd(a_part[r], b_part[c], sum[r][c]);
      }
    };

    if (p.k > 0) {
      fetch(static_cast<int>(min(p.k, int64_t{kTileK})));
      stage(0);
      __syncthreads();
    }
    int buffer = 0;
    for (int64_t left = p.k; left > 0; left -= kTileK, buffer ^= 1) {
      const bool more = left > kTileK;
      if (more) fetch(static_cast<int>(min(left - kTileK, int64_t{kTileK})));
      if (left >= kTileK) {
#pragma unroll
        for (int l = 0; l < kTileK; ++l) accumulate(buffer, l);
      } else {
        // Stop at k: adding 0 * 0 would turn a sum of -0 into +0, and the bits would differ.
#pragma unroll 1
        for (int l = 0; l < static_cast<int>(left); ++l) accumulate(buffer, l);
      }
      // The other buffer was last read before the barrier that ended the step before.
      if (more) stage(buffer ^ 1);
      __syncthreads();
    }

#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = y * kGroup + r / kGroup * kGroupStride + r % kGroup;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int j = x * kGroup + c / kGroup * kGroupStride + c % kGroup;
        if (i < rows && j < columns) StoreElement(p, batch, row0 + i, column0 + j, sum[r][c]);
      }
    }
  });
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&RegisterBlocked<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kConfigs)>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("register", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& RegisterFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
