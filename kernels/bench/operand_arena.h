// Operands to measure on: random reals in [-1, 1), each set 256-byte aligned, rotating through more
// than twice the L2 cache, cut out of memory that is filled once and kept from shape to shape.

#ifndef GEMMD_KERNELS_BENCH_OPERAND_ARENA_H_
#define GEMMD_KERNELS_BENCH_OPERAND_ARENA_H_

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/bench/sampled_check.h"
#include "kernels/cuda_raii.h"
#include "kernels/device_info.h"
#include "kernels/gemm.h"

namespace gemm {

class OperandArena {
 public:
  // Makes sets for the problem, at most `max_sets`, and `min_sets` where a product alone is twice
  // the cache. What was handed out before is gone. Waits for the stream.
  [[nodiscard]] cudaError_t Create(const Problem& problem, const DeviceInfo& device, int max_sets,
                                   cudaStream_t stream, int min_sets = 1);

  const std::vector<Operands>& sets() const { return sets_; }
  size_t result_bytes() const { return result_bytes_; }  // of D, in one set
  // How the first set was filled; the others hold other values.
  const SampledOperands& filled() const { return filled_; }

 private:
  [[nodiscard]] cudaError_t Reserve(size_t a_bytes, size_t b_bytes, size_t d_bytes, DType dtype,
                                    cudaStream_t stream);

  const SampledOperands filled_{Fill::kReals, 21, 22, 23};
  DType dtype_ = DType::kF32;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer d_;
  std::vector<Operands> sets_;
  size_t result_bytes_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_OPERAND_ARENA_H_
