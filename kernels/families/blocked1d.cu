// blocked1d: tiles in shared memory, and a column of 8 results a thread. One load of B feeds 8
// multiply-adds, with 8 loads of A that a whole warp shares.
//
//                  B  k x 64, 8 rows at a time
//                  |    64     |
//   A 64 x k       +-----------+     thread (y, x), y < 8, x < 64: rows 8 y .. 8 y + 7 of column x
//   8 columns -->  |   | 8     |
//   at a time      |   | rows  |
//                  +-----------+
//
// Shared memory: A as [64][8 + 1] (a warp's loads are of one element; the padding is for the
// stores) and B as [8][64]: 4.3 KiB. Every thread of 512 brings in one element of each. Budget: 8
// sums, under 40 registers, four blocks a multiprocessor.
//
// The limit is shared memory's rate still: 9 loads for 8 multiply-adds. Blocking in both directions
// (register) is the way out.

#include "kernels/families/families.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30, of f32 by bench/fit_costs.py.
constexpr SimtConfig kConfigs[] = {
    {"blocked1d_f32_64x64x8", DType::kF32, 64, 64, 8, 512, 0.252, 0.118, 1, 0.346, 1.87e-6},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kConfigs[I].threads)
    Blocked1d(const StridedGemm<ElementOf<kConfigs[I].dtype>> p) {
  using T = ElementOf<kConfigs[I].dtype>;
  constexpr int kTileM = kConfigs[I].tile_m;
  constexpr int kTileN = kConfigs[I].tile_n;
  constexpr int kTileK = kConfigs[I].tile_k;
  constexpr int kResults = kTileM * kTileN / kConfigs[I].threads;
  static_assert(kTileM * kTileK == kConfigs[I].threads && kTileN * kTileK == kConfigs[I].threads,
                "every thread brings in one element of each operand");
  __shared__ T a_tile[kTileM][kTileK + 1];
  __shared__ T b_tile[kTileK][kTileN];
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % kTileN;
  const int y = thread / kTileN;
  // Which element a thread brings in follows what is contiguous in memory.
  const bool a_along_k = p.a_column == 1;
  const int a_i = a_along_k ? thread / kTileK : thread % kTileM;
  const int a_l = a_along_k ? thread % kTileK : thread / kTileM;
  const bool b_along_k = p.b_column != 1;
  const int b_j = b_along_k ? thread / kTileK : thread % kTileN;
  const int b_l = b_along_k ? thread % kTileK : thread / kTileN;

  ForEachTile<kTileM, kTileN>(p, [&](int64_t batch, int64_t row0, int64_t column0) {
    const T* a = p.a + batch * p.a_batch + (row0 + a_i) * p.a_row + a_l * p.a_column;
    const T* b = p.b + batch * p.b_batch + (column0 + b_j) * p.b_column + b_l * p.b_row;
    const bool a_inside = row0 + a_i < p.m;
    const bool b_inside = column0 + b_j < p.n;
    T sum[kResults] = {};
    const auto accumulate = [&](int l) {
      const T b_part = b_tile[l][x];
#pragma unroll
      for (int r = 0; r < kResults; ++r) {
        sum[r] = MultiplyAdd(a_tile[y * kResults + r][l], b_part, sum[r]);
      }
    };
    for (int64_t l0 = 0; l0 < p.k; l0 += kTileK) {
      a_tile[a_i][a_l] = a_inside && l0 + a_l < p.k ? __ldg(a) : T{0};
      b_tile[b_l][b_j] = b_inside && l0 + b_l < p.k ? __ldg(b) : T{0};
      a += kTileK * p.a_column;
      b += kTileK * p.b_row;
      __syncthreads();
      if (p.k - l0 >= kTileK) {
#pragma unroll
        for (int l = 0; l < kTileK; ++l) accumulate(l);
      } else {
        // Stop at k: adding 0 * 0 would turn a sum of -0 into +0, and the bits would differ.
        const int tail = static_cast<int>(p.k - l0);
#pragma unroll 1
        for (int l = 0; l < tail; ++l) accumulate(l);
      }
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < kResults; ++r) {
      const int64_t i = row0 + y * kResults + r;
      if (i < p.m && column0 + x < p.n) StoreElement(p, batch, i, column0 + x, sum[r]);
    }
  });
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Blocked1d<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kConfigs)>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("blocked1d", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& Blocked1dFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
