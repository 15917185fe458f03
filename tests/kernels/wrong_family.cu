#include <array>
#include <vector>

#include "kernels/families/simt_family.h"
#include "kernels/families/strided_gemm.cuh"
#include "tests/kernels/wrong_family.h"

namespace gemm {
namespace {

enum Fault {
  kSlab,      // leaves out eight products in the middle of the sum
  kTail,      // leaves out what is left of k after whole tiles of 8
  kRow,       // never writes the last row
  kReadsC,    // adds beta * C when beta is 0 (where there is a C: a null would end the test)
  kOutside,   // writes one element past each row
  kBackward,  // sums in descending k: right, but not the bits of its class
  kUnstable,  // the last bit changes from launch to launch
  kSeldom,    // leaves one element unwritten in one launch of 17
  kGroup,     // takes the alpha of a group's first problem for all
  kFaults,
};

constexpr int kThreads = 256;
constexpr SimtConfig kConfigs[kFaults] = {
    {"wrong_f32_slab", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_tail", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_row", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_reads_c", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_outside", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_backward", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_unstable", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_seldom", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
    {"wrong_f32_group", DType::kF32, 1, kThreads, 1, kThreads, 1, 1, 0, 0, 0},
};
constexpr auto kKernelConfigs = ToKernelConfigs(kConfigs);

__device__ unsigned launches = 0;

template <int kFault>
__global__ void __launch_bounds__(kThreads) Wrong(const StridedGemm<float> p) {
  ForEachTile<1, kThreads>(p, [&](int64_t batch, int64_t i, int64_t column0) {
    const int64_t j = column0 + threadIdx.x;
    if (j >= p.n) return;
    const float* a = p.a + batch * p.a_batch + i * p.a_row;
    const float* b = p.b + batch * p.b_batch + j * p.b_column;
    float sum = 0;
    for (int64_t step = 0; step < p.k; ++step) {
      const int64_t l = kFault == kBackward ? p.k - 1 - step : step;
      if (kFault == kSlab && l >= p.k / 2 && l < p.k / 2 + 8) continue;
      if (kFault == kTail && l >= p.k / 8 * 8) continue;
      sum = MultiplyAdd(a[l * p.a_column], b[l * p.b_row], sum);
    }
    if (kFault == kRow && i == p.m - 1) return;
    if (kFault == kUnstable && i == 0 && j == 0 && atomicAdd(&launches, 1) % 2 == 1) {
      sum = __int_as_float(__float_as_int(sum) ^ 1);
    }
    if (kFault == kSeldom && batch == 0 && i == 0 && j == 0 && atomicAdd(&launches, 1) % 17 == 16) {
      return;
    }
    if (kFault == kReadsC && p.beta == 0 && p.c != nullptr) {
      const float c = p.c[batch * p.c_batch + i * p.c_row + j];
      p.d[batch * p.d_batch + i * p.d_row + j] = p.alpha * sum + p.beta * c;
      return;
    }
    StoreElement(p, batch, i, j, sum);
    if (kFault == kOutside && j == p.n - 1) p.d[batch * p.d_batch + i * p.d_row + p.n] = 0;
  });
}

template <int... I>
std::array<const void*, sizeof...(I)> Functions(std::integer_sequence<int, I...>) {
  return {reinterpret_cast<const void*>(&Wrong<I>)...};
}
const auto kFunctions = Functions(std::make_integer_sequence<int, kFaults>());

class Family final : public SimtFamily {
 public:
  Family() : SimtFamily("wrong", kConfigs, kKernelConfigs, kFunctions) {}

  bool Groups(int config) const override { return config == kGroup; }
  void Encode(const Plan& plan, std::span<const Problem> problems,
              std::span<const Operands> operands, void* args) const override {
    std::vector<Problem> wrong(problems.begin(), problems.end());
    for (Problem& problem : wrong) {
      if (plan.config == kGroup && ReadsAB(problem)) problem.alpha = wrong[0].alpha;
    }
    SimtFamily::Encode(plan, wrong, operands, args);
  }
};

}  // namespace

cudaError_t ForgetWrongLaunches() {
  const unsigned none = 0;
  return cudaMemcpyToSymbol(launches, &none, sizeof(none));
}

const KernelFamily& WrongFamily() {
  static const Family family;
  return family;
}

}  // namespace gemm
