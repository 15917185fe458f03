#include "kernels/bench/result_check.h"

#include "kernels/bench/count_different.h"
#include "kernels/bench/replay.h"
#include "kernels/cuda_status.h"

namespace gemm {

cudaError_t ResultCheck::Create(const Problem& problem, const OperandArena& arena, int samples) {
  dtype_ = problem.dtype;
  arena_ = &arena;
  samples_ = MakeSamples(problem, arena.filled(), samples);
  first_results_.clear();
  return count_.Create(sizeof(unsigned));
}

cudaError_t ResultCheck::Run(const std::function<cudaError_t(cudaStream_t)>& launch,
                             const NumericsClass* numerics, cudaStream_t stream, std::string* fault,
                             double* seconds) {
  void* d = arena_->sets().front().d;
  const size_t bytes = arena_->result_bytes();
  // NaN everywhere: what is not written shows.
  GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(d, 0xff, bytes, stream));
  GEMM_RETURN_IF_CUDA_ERROR(TimeOnce(launch, stream, seconds));
  Verdict verdict;
  GEMM_RETURN_IF_CUDA_ERROR(CheckSamples(dtype_, samples_, d, &verdict));
  *fault = verdict.fault;
  if (!verdict.ok || numerics == nullptr) return cudaSuccess;

  const auto [first, added] = first_results_.try_emplace(*numerics);
  if (added) {
    GEMM_RETURN_IF_CUDA_ERROR(first->second.Create(bytes));
    return cudaMemcpyAsync(first->second.data(), d, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  unsigned different = 0;
  GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(count_.data(), 0, sizeof(unsigned), stream));
  GEMM_RETURN_IF_CUDA_ERROR(CountDifferent(d, first->second.data(), bytes,
                                           static_cast<unsigned*>(count_.data()), stream));
  GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  GEMM_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(&different, count_.data(), sizeof(unsigned), cudaMemcpyDeviceToHost));
  if (different != 0) {
    *fault = std::to_string(different) + " words differ from the first kernel of its class";
  }
  return cudaSuccess;
}

}  // namespace gemm
