// Host memory for one case: operands inside buffers of NaN, D inside a buffer of canaries.

#ifndef GEMMD_KERNELS_BENCH_CASE_DATA_H_
#define GEMMD_KERNELS_BENCH_CASE_DATA_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/bench/shapes.h"
#include "kernels/gemm.h"

namespace gemm {

// One operand with guards before and after. `data()[element]` is what a kernel's pointer sees.
template <typename T>
struct HostOperand {
  std::vector<T> buffer;
  size_t offset = 0;  // elements before the operand

  T* data() { return buffer.data() + offset; }
  const T* data() const { return buffer.data() + offset; }
};

template <typename T>
struct CaseData {
  HostOperand<T> a;  // all NaN where the problem says that it is never read
  HostOperand<T> b;
  HostOperand<T> c;
  HostOperand<T> d;  // before the product: canaries, or C where the two are one
};

// A quiet NaN with a payload that no arithmetic makes: unwritten and overwritten elements show.
template <typename T>
inline T Canary() {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(uint32_t{0x7fc5a5a5});
  } else {
    return std::bit_cast<double>(uint64_t{0x7ff8a5a5a5a5a5a5});
  }
}

template <typename T>
CaseData<T> MakeCaseData(const CheckCase& check_case, uint64_t seed);

extern template CaseData<float> MakeCaseData<float>(const CheckCase&, uint64_t);
extern template CaseData<double> MakeCaseData<double>(const CheckCase&, uint64_t);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_CASE_DATA_H_
