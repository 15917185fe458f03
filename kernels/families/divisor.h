// Division by a number that the host knows, where a kernel waits for it: a multiplication and a
// shift for some 35 instructions.

#ifndef GEMMD_KERNELS_FAMILIES_DIVISOR_H_
#define GEMMD_KERNELS_FAMILIES_DIVISOR_H_

#include <algorithm>
#include <cstdint>

namespace gemm {

// A dividend times the multiplier, shifted, is the quotient, for all dividends from 0 to 2^31 - 1.
struct Divisor {
  uint32_t multiplier;
  int shift;
};

// What is larger than all dividends goes into none of them, but the largest once.
inline Divisor DivisorOf(int64_t divisor) {
  divisor = std::clamp(divisor, int64_t{1}, (int64_t{1} << 31) - 1);
  int bits = 0;
  while ((int64_t{1} << bits) < divisor) ++bits;
  const int shift = 31 + bits;
  return {static_cast<uint32_t>((int64_t{1} << shift) / divisor + 1), shift};
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DIVISOR_H_
