// Random numbers that are the same everywhere for the same seed, unlike those of the standard
// library's distributions.

#ifndef GEMMD_CLIENT_CLI_PERF_RANDOM_H_
#define GEMMD_CLIENT_CLI_PERF_RANDOM_H_

#include <cstdint>
#include <random>

namespace gemm::cli {

class Random {
 public:
  // Streams of one seed have nothing to do with one another.
  Random(uint64_t seed, uint64_t stream) {
    std::seed_seq sequence = {seed, seed >> 32, stream, stream >> 32};
    engine_.seed(sequence);
  }

  // In [0, 1).
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_RANDOM_H_
