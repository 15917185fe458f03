// cached: blocking for the caches, without shared memory. A thread keeps TM x TN elements of D in
// registers, so that TM + TN loads feed TM * TN multiply-adds; what its neighbours load as well,
// the L1 cache delivers.
//
//                      B  k x 16 TN
//                      | x | x | x |..      thread (y, x) of 16 x 16: rows y + 16 r, r < TM, and
//                      +---+---+---+        columns x + 16 c, c < TN, so that a warp's loads of B
//   A 16 TM x k   y -->| 1 | 1 | 1 |        and stores to D are consecutive
//                 y -->| 1 | 1 | 1 |
//
// Budget: no shared memory; 8 x 8 has 64 sums, 16 operands and as many addresses as they need,
// which is why rows are found by stride and not by pointers of their own.
//
// The articles' fifth step. It was tried with tiles of consecutive elements too: a warp's loads of
// B are then 8 elements apart and ask the cache for four times the lines.

#include "kernels/families/families.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {
namespace {

constexpr int kThreadsX = 16;
constexpr int kThreads = 256;

// Numbers for the cost model: NVIDIA H200, 2026-11-30, of f32 by bench/fit_costs.py.
constexpr SimtConfig kConfigs[] = {
    {"cached_f32_8x8", DType::kF32, 128, 128, 1, kThreads, 0.264, 0.149, 6, 0.835, 3.37e-6},
    {"cached_f32_8x4", DType::kF32, 128, 64, 1, kThreads, 0.292, 0.086, 2.5, 0.541, 3.03e-6},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kThreads)
    Cached(const StridedGemm<ElementOf<kConfigs[I].dtype>> p) {
  using T = ElementOf<kConfigs[I].dtype>;
  constexpr int kTileM = kConfigs[I].tile_m;
  constexpr int kTileN = kConfigs[I].tile_n;
  constexpr int kRows = kTileM / kThreadsX;
  constexpr int kColumns = kTileN / kThreadsX;
  const int y = static_cast<int>(threadIdx.x) / kThreadsX;
  const int x = static_cast<int>(threadIdx.x) % kThreadsX;

  ForEachTile<kTileM, kTileN>(p, [&](int64_t batch, int64_t row0, int64_t column0) {
    const int rows = static_cast<int>(min(p.m - row0, int64_t{kTileM}));
    const int columns = static_cast<int>(min(p.n - column0, int64_t{kTileN}));
    const bool whole = rows == kTileM && columns == kTileN;
    const T* a = p.a + batch * p.a_batch + (row0 + y) * p.a_row;
    const T* b = p.b + batch * p.b_batch + (column0 + x) * p.b_column;
    T sum[kRows][kColumns] = {};
    const auto step = [&](bool guarded) {
      T a_part[kRows];
      T b_part[kColumns];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        a_part[r] =
            !guarded || y + r * kThreadsX < rows ? __ldg(a + r * kThreadsX * p.a_row) : T{0};
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        b_part[c] =
            !guarded || x + c * kThreadsX < columns ? __ldg(b + c * kThreadsX * p.b_column) : T{0};
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum[r][c] = MultiplyAdd(a_part[r], b_part[c], sum[r][c]);
      }
      a += p.a_column;
      b += p.b_row;
    };
    if (whole) {
#pragma unroll 2
      for (int64_t l = 0; l < p.k; ++l) step(false);
    } else {
#pragma unroll 1
      for (int64_t l = 0; l < p.k; ++l) step(true);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int i = y + r * kThreadsX;
        const int j = x + c * kThreadsX;
        if (i < rows && j < columns) StoreElement(p, batch, row0 + i, column0 + j, sum[r][c]);
      }
    }
  });
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Cached<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kConfigs)>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("cached", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& CachedFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
