// The library that the kernels are measured beside: cuBLAS, in every way that it offers. Only
// gemm_bench links it; a build without it has a peer that can do nothing.

#ifndef GEMMD_KERNELS_BENCH_PEER_H_
#define GEMMD_KERNELS_BENCH_PEER_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/gemm.h"

namespace gemm {

class Peer {
 public:
  virtual ~Peer() = default;

  // "cuBLAS 13.0.1", or why there is none.
  virtual std::string version() const = 0;

  // Gets ready for a problem: the names of the ways to compute it, none if it cannot, with the
  // reason in `why_not`. A way's first launch may take long and must not be captured.
  virtual std::vector<std::string> Prepare(const Problem& problem, std::string* why_not) = 0;

  // Enqueues way `way` of the last Prepare. False when the library refuses.
  virtual bool Launch(size_t way, const Operands& operands, cudaStream_t stream) = 0;

  // The same for several f32 problems at once, with alpha 1 and beta 0: `sets` holds the operands
  // of all of them, set by set. Both must outlive the launches.
  virtual std::vector<std::string> PrepareGroup(std::span<const Problem> problems,
                                                std::span<const std::vector<Operands>> sets) = 0;
  virtual bool LaunchGroup(size_t way, size_t set, cudaStream_t stream) = 0;
};

// On the current device.
std::unique_ptr<Peer> MakePeer();

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_PEER_H_
