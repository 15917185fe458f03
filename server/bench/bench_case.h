// What one row of the bench measures.

#ifndef GEMMD_SERVER_BENCH_BENCH_CASE_H_
#define GEMMD_SERVER_BENCH_BENCH_CASE_H_

#include <cstdint>

namespace gemm::bench {

// Calls whose request and reply have the sizes of an f32 product's, from so many threads at once,
// each with a connection of its own.
struct BenchCase {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int channels = 1;

  uint64_t up_bytes() const { return sizeof(float) * (m * k + k * n); }
  uint64_t down_bytes() const { return sizeof(float) * m * n; }

  bool operator==(const BenchCase&) const = default;
};

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_BENCH_CASE_H_
