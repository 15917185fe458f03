// Kernels of one product in turns, over and over, every result compared bit for bit with the first
// of its class. A fault that depends on when things happen shows in one launch of many; timing
// compares no results.
//
// What is compared ran right behind another kernel, which multiplied other operands: so it may
// begin while that one ends, its workspace holds sums of other operands, the caches hold other
// code, and D is full of NaN. What is read too early or never written is then wrong, not left over
// and right.

#ifndef GEMMD_KERNELS_BENCH_REPETITION_H_
#define GEMMD_KERNELS_BENCH_REPETITION_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "kernels/bench/measure.h"
#include "kernels/bench/prepared_rotation.h"
#include "kernels/bench/result_check.h"
#include "kernels/cuda_raii.h"

namespace gemm {

class Repetition {
 public:
  struct Contender {
    KernelRef kernel;
    PreparedRotation rotation;
    double once = 0;    // seconds of its first launch
    std::string fault;  // of its first result; it is not repeated then
    uint64_t compared = 0;
    unsigned different = 0;  // words, of all results; 2^32 and more wrap around
  };

  // The problem must outlive it, and the bench's operands are its own until it is gone.
  Repetition(Workbench& bench, const Problem& problem) : bench_(bench), problem_(problem) {}

  [[nodiscard]] cudaError_t Create();
  // Makes a kernel ready that can run the problem, and checks its first result.
  [[nodiscard]] cudaError_t Add(const KernelRef& kernel);
  // Once.
  [[nodiscard]] cudaError_t Run(double seconds);
  const std::deque<Contender>& contenders() const { return contenders_; }

 private:
  static constexpr int kSets = 2;

  [[nodiscard]] cudaError_t KeepFirst(const Contender& contender);
  [[nodiscard]] cudaError_t Compare(const Contender& contender, const Contender& before, size_t set,
                                    unsigned* different);

  Workbench& bench_;
  const Problem& problem_;
  ResultCheck check_;
  std::deque<Contender> contenders_;
  std::map<NumericsClass, std::array<DeviceBuffer, kSets>> first_;
  DeviceBuffer counts_;  // a word for each contender
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_REPETITION_H_
