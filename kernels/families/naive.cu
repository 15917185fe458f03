// naive: one element of D a thread, operands straight from global memory, as every article on the
// subject begins. Threads that are neighbours in x take neighbouring columns, so loads of B and
// stores to D coalesce and a row of A is a broadcast.
//
//            B  k x 16               thread (y, x) of a 16 x 16 block:
//            |  |  |  |                sum over k of A[y][.] * B[.][x]
//   A 16 x k ---+-----  D 16 x 16
//
// Budget: no shared memory; under 40 registers, 256 threads, so occupancy is full. Two loads for
// each multiply-add: the L1 cache's rate is the limit, not memory's.
//
// A transposed A or B only changes strides; a transposed B loses the coalescing.

#include "kernels/families/families.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {
namespace {

// Numbers for the cost model: NVIDIA H200, 2026-11-30, of f32 by bench/fit_costs.py.
constexpr SimtConfig kConfigs[] = {
    {"naive_f32_16x16", DType::kF32, 16, 16, 1, 256, 0.034, 0.0205, 0, 0.217, 1.37e-6},
    {"naive_f64_16x16", DType::kF64, 16, 16, 1, 256, 0.100, 0.0283, 5.8, 1, 1.1e-6},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kConfigs[I].threads)
    Naive(const StridedGemm<ElementOf<kConfigs[I].dtype>> p) {
  using T = ElementOf<kConfigs[I].dtype>;
  constexpr int kTileM = kConfigs[I].tile_m;
  constexpr int kTileN = kConfigs[I].tile_n;
  static_assert(kTileM * kTileN == kConfigs[I].threads, "one thread an element");
  const int y = static_cast<int>(threadIdx.x) / kTileN;
  const int x = static_cast<int>(threadIdx.x) % kTileN;

  ForEachTile<kTileM, kTileN>(p, [&](int64_t batch, int64_t row0, int64_t column0) {
    const int64_t i = row0 + y;
    const int64_t j = column0 + x;
    if (i >= p.m || j >= p.n) return;
    const T* a = p.a + batch * p.a_batch + i * p.a_row;
    const T* b = p.b + batch * p.b_batch + j * p.b_column;
    T sum = 0;
    for (int64_t l = 0; l < p.k; ++l, a += p.a_column, b += p.b_row) {
      sum = MultiplyAdd(__ldg(a), __ldg(b), sum);
    }
    StoreElement(p, batch, i, j, sum);
  });
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Naive<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kConfigs)>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("naive", kConfigs, kKernelConfigs, kFunctions) {}
};

}  // namespace

const KernelFamily& NaiveFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
