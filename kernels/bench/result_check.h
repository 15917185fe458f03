// Whether a kernel's result on the operands that it is timed on is right: samples within the error
// bound, and every bit equal to that of the first kernel of its numerics class.

#ifndef GEMMD_KERNELS_BENCH_RESULT_CHECK_H_
#define GEMMD_KERNELS_BENCH_RESULT_CHECK_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/bench/operand_arena.h"
#include "kernels/bench/sampled_check.h"
#include "kernels/cuda_raii.h"
#include "kernels/kernel.h"

namespace gemm {

class ResultCheck {
 public:
  // For one problem, on the arena's first set. The arena must outlive the check.
  [[nodiscard]] cudaError_t Create(const Problem& problem, const OperandArena& arena, int samples);

  // Runs `launch` once, says how long that took, and puts into `fault` what is wrong, if anything.
  // Without a class the bits are not compared: a peer sums as it likes.
  [[nodiscard]] cudaError_t Run(const std::function<cudaError_t(cudaStream_t)>& launch,
                                const NumericsClass* numerics, cudaStream_t stream,
                                std::string* fault, double* seconds);

 private:
  DType dtype_ = DType::kF32;
  const OperandArena* arena_ = nullptr;
  std::vector<Sample> samples_;
  std::map<NumericsClass, DeviceBuffer> first_results_;
  DeviceBuffer count_;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_RESULT_CHECK_H_
