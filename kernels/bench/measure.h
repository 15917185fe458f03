// How fast each legal kernel is on one product.

#ifndef GEMMD_KERNELS_BENCH_MEASURE_H_
#define GEMMD_KERNELS_BENCH_MEASURE_H_

#include <cuda_runtime_api.h>

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "kernels/bench/operand_arena.h"
#include "kernels/bench/prepared_rotation.h"
#include "kernels/bench/replay.h"
#include "kernels/bench/result_check.h"
#include "kernels/select.h"

namespace gemm {

// The device, its stream and its operands, kept from shape to shape.
class Workbench {
 public:
  explicit Workbench(const DeviceInfo& device) : device_(device) {}
  [[nodiscard]] cudaError_t Create() { return stream_.Create(); }

  const DeviceInfo& device() const { return device_; }
  cudaStream_t stream() const { return stream_.get(); }
  OperandArena& arena() { return arena_; }

 private:
  const DeviceInfo& device_;
  Stream stream_;
  OperandArena arena_;
};

struct KernelTime {
  KernelRef kernel;
  std::string fault;   // not empty: it failed its check, and there is no time
  Summary seconds;     // of one product
  bool rough = false;  // much slower than the best: timed once or twice, not over the rounds
};

struct MeasureOptions {
  int max_sets = 64;
  int samples = 16;
  Pace pace = {.graph_seconds = 3e-4, .seconds = 0.02, .min_rounds = 5, .max_rounds = 15};
  // What is slower than so many times the best gets no further:
  double hopeless = 6;  // by the model: not run at all
  double drop = 4;      // by its single, checked launch: left at that
  double keep = 1.5;    // by a first pass over the operand sets: left at that
};

// The configurations of the families that can run the problem, the last of the last family first.
// Each is checked first. The families have been prepared.
[[nodiscard]] cudaError_t MeasureKernels(Workbench& bench, const Problem& problem,
                                         std::span<const KernelFamily* const> families,
                                         const MeasureOptions& options,
                                         std::vector<KernelTime>* times);

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_MEASURE_H_
