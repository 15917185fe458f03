// tiled: square tiles of A and B staged in shared memory, one element of D a thread. Each element
// of A and B is fetched once a tile instead of once a thread.
//
//                 B  k x T, T rows at a time
//                 |T x T|
//                 |     |
//   A T x k       +-----+
//   |T x T|-->    | D   |   thread (y, x): sum += A_tile[y][l] * B_tile[l][x], l = 0..T-1
//   T columns     +-----+
//   at a time
//
// Shared memory: 2 T^2 elements (T = 32: 8 KiB), row by row and unpadded:
// in a warp A_tile[y][l] is one or two words for all and B_tile[l][x] is consecutive, so no bank is
// asked for twice. Budget: under 32 registers for T = 32 (1024 threads, two blocks a
// multiprocessor).
//
// The limit is shared memory's rate: two loads for each multiply-add. The register family is the
// way out.

#include "kernels/families/families.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30, of f32 by bench/fit_costs.py.
constexpr SimtConfig kConfigs[] = {
    {"tiled_f32_32x32x32", DType::kF32, 32, 32, 32, 1024, 0.123, 0.0943, 11, 0.267, 1.54e-6},
    {"tiled_f32_16x16x16", DType::kF32, 16, 16, 16, 256, 0.0769, 0.0463, 9.8, 0.302, 1.36e-6},
    {"tiled_f64_16x16x16", DType::kF64, 16, 16, 16, 256, 0.124, 0.0426, 11.6, 1, 0.9e-6},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kConfigs[I].threads)
    Tiled(const StridedGemm<ElementOf<kConfigs[I].dtype>> p) {
  using T = ElementOf<kConfigs[I].dtype>;
  constexpr int kTile = kConfigs[I].tile_m;
  static_assert(kTile == kConfigs[I].tile_n && kTile == kConfigs[I].tile_k,
                "a thread stages one element of each square tile");
  static_assert(kTile * kTile == kConfigs[I].threads, "one thread an element");
  __shared__ T a_tile[kTile][kTile];
  __shared__ T b_tile[kTile][kTile];
  const int y = static_cast<int>(threadIdx.x) / kTile;
  const int x = static_cast<int>(threadIdx.x) % kTile;

  ForEachTile<kTile, kTile>(p, [&](int64_t batch, int64_t row0, int64_t column0) {
    const int64_t i = row0 + y;
    const int64_t j = column0 + x;
    const T* a = p.a + batch * p.a_batch + i * p.a_row + x * p.a_column;
    const T* b = p.b + batch * p.b_batch + j * p.b_column + y * p.b_row;
    T sum = 0;
    for (int64_t l0 = 0; l0 < p.k; l0 += kTile) {
      // Threads outside the matrices stage zeros: they must still reach the barriers.
      a_tile[y][x] = i < p.m && l0 + x < p.k ? __ldg(a) : T{0};
      b_tile[y][x] = j < p.n && l0 + y < p.k ? __ldg(b) : T{0};
      a += kTile * p.a_column;
      b += kTile * p.b_row;
      __syncthreads();
      if (p.k - l0 >= kTile) {
#pragma unroll
        for (int l = 0; l < kTile; ++l) sum = MultiplyAdd(a_tile[y][l], b_tile[l][x], sum);
      } else {
        // Stop at k: adding 0 * 0 would turn a sum of -0 into +0, and the bits would differ.
        const int tail = static_cast<int>(p.k - l0);
        for (int l = 0; l < tail; ++l) sum = MultiplyAdd(a_tile[y][l], b_tile[l][x], sum);
      }
      __syncthreads();
    }
    if (i < p.m && j < p.n) StoreElement(p, batch, i, j, sum);
  });
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Tiled<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kConfigs)>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("tiled", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& TiledFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
