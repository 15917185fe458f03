// Device time by graph replay: a graph holds many launches, so that the host's share of each is
// nothing, and the contenders take turns, so that clocks and heat are the same for all.

#ifndef GEMMD_KERNELS_BENCH_REPLAY_H_
#define GEMMD_KERNELS_BENCH_REPLAY_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/bench/statistics.h"

namespace gemm {

// Something that computes the product of operand set `set` with asynchronous work on the stream.
struct Contender {
  std::string name;
  std::function<cudaError_t(size_t set, cudaStream_t stream)> launch;
};

struct Pace {
  double graph_seconds = 1e-3;  // a replay lasts at least this long: events tick coarsely
  double seconds = 0.5;         // for all rounds of all contenders
  int min_rounds = 5;
  int max_rounds = 50;
};

// Seconds of one product, for each contender over the same rounds. Each round starts with another
// contender than the one before.
[[nodiscard]] cudaError_t TimeAlternately(const std::vector<Contender>& contenders, size_t sets,
                                          const Pace& pace, cudaStream_t stream,
                                          std::vector<Summary>* seconds);

// Whether one launch can be captured into a graph. Clears the error of one that cannot.
bool CanCapture(const Contender& contender, cudaStream_t stream);

// The work of one call of `launch`, in seconds, by events alone: for a first, rough idea.
[[nodiscard]] cudaError_t TimeOnce(const std::function<cudaError_t(cudaStream_t)>& launch,
                                   cudaStream_t stream, double* seconds);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_REPLAY_H_
