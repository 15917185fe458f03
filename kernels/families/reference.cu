// reference: the plainest right answer, for any valid problem. One element of D a thread, in a
// grid-stride loop over the whole batch with 64-bit indices, so no shape is too long in any
// direction. Every other family of the sequential class must give the same bits.
//
//        B                        element e of the batch -> (matrix, row, column)
//        |                        sum = 0; for p ascending: sum = fma(a, b, sum)
//   A ---x  one thread
//
// Budget: no shared memory; about 40 registers, 256 threads. It is never chosen for its speed.

#include "kernels/families/families.h"
#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"

namespace gemm {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = int64_t{1} << 20;  // then the loop goes round

// Fractions for the cost model, lower than measured: where anything else can run, it should.
constexpr SimtConfig kConfigs[] = {
    {"reference_f32", DType::kF32, 1, kThreads, 1, kThreads, 0.02, 0.006, 6, 1, 6e-6},
    {"reference_f64", DType::kF64, 1, kThreads, 1, kThreads, 0.02, 0.006, 6, 1, 6e-6},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

template <int I>
__global__ void __launch_bounds__(kConfigs[I].threads)
    Reference(const StridedGemm<ElementOf<kConfigs[I].dtype>> p) {
  using T = ElementOf<kConfigs[I].dtype>;
  const int64_t elements = p.batch_count * p.m * p.n;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t e = int64_t{blockIdx.x} * kThreads + threadIdx.x; e < elements; e += step) {
    const int64_t j = e % p.n;
    const int64_t i = e / p.n % p.m;
    const int64_t batch = e / p.n / p.m;
    const T* a = p.a + batch * p.a_batch + i * p.a_row;
    const T* b = p.b + batch * p.b_batch + j * p.b_column;
    T sum = 0;
    for (int64_t l = 0; l < p.k; ++l, a += p.a_column, b += p.b_row) {
      sum = MultiplyAdd(*a, *b, sum);
    }
    StoreElement(p, batch, i, j, sum);
  }
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Reference<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, std::size(kConfigs)>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("reference", kConfigs, kKernelConfigs, kFunctions) {}

  std::string WhyNot(const Problem& problem, const DeviceInfo& /*device*/,
                     int config) const override {
    if (problem.dtype == kConfigs[config].dtype) return {};
    return "computes " + std::string(NameOf(kConfigs[config].dtype)) + ", not " +
           std::string(NameOf(problem.dtype));
  }

 private:
  SimtGrid Grid(const Problem& problem, const SimtConfig& /*config*/) const override {
    const int64_t elements = problem.batch_count * problem.m * problem.n;
    const int64_t blocks = (elements - 1) / kThreads + 1;
    return {static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), 1, 1};
  }
};

}  // namespace

const KernelFamily& ReferenceFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
