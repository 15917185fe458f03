// What the host sides of families do alike: load kernels, and leave a record of each launch from
// Encode to Launch.

#ifndef GEMMD_KERNELS_FAMILIES_LAUNCH_RECORDS_H_
#define GEMMD_KERNELS_FAMILIES_LAUNCH_RECORDS_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/cuda_status.h"
#include "kernels/gemm.h"
#include "kernels/kernel.h"

namespace gemm {

// So that a launch does not: a kernel that asks for up to so many bytes of dynamic shared memory.
inline cudaError_t LoadKernel(const void* kernel, size_t shared_bytes) {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, kernel));
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(shared_bytes));
}

// All of them.
inline cudaError_t LoadKernels(std::span<const void* const> kernels, size_t shared_bytes) {
  for (const void* kernel : kernels) GEMM_RETURN_IF_CUDA_ERROR(LoadKernel(kernel, shared_bytes));
  return cudaSuccess;
}

// The plan of a launch for each product that is not empty.
template <typename Record>
Plan PlanOfEach(std::span<const Problem> problems, int config, int variant) {
  Plan plan;
  plan.config = config;
  plan.variant = variant;
  plan.launches = static_cast<int>(std::count_if(
      problems.begin(), problems.end(), [](const Problem& problem) { return !IsEmpty(problem); }));
  plan.args_bytes = static_cast<size_t>(plan.launches) * sizeof(Record);
  return plan;
}

// Leaves record_of(problem, operands) of each product that is not empty.
template <typename RecordOf>
void EncodeEach(std::span<const Problem> problems, std::span<const Operands> operands, void* args,
                const RecordOf& record_of) {
  auto* out = static_cast<unsigned char*>(args);
  for (size_t i = 0; i < problems.size(); ++i) {
    if (IsEmpty(problems[i])) continue;
    const auto record = record_of(problems[i], operands[i]);
    static_assert(std::is_trivially_copyable_v<decltype(record)> &&
                  alignof(decltype(record)) <= 16);
    std::memcpy(out, &record, sizeof(record));
    out += sizeof(record);
  }
}

// Calls launch(record) with a copy of each until one fails.
template <typename Record, typename Launch>
cudaError_t LaunchEach(const Plan& plan, const void* args, const Launch& launch) {
  const auto* in = static_cast<const unsigned char*>(args);
  for (size_t at = 0; at < plan.args_bytes; at += sizeof(Record)) {
    Record record;
    std::memcpy(&record, in + at, sizeof(record));
    GEMM_RETURN_IF_CUDA_ERROR(launch(record));
  }
  return cudaGetLastError();
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_LAUNCH_RECORDS_H_
