// The facts about a GPU that choosing a kernel depends on: plain values, so that choosing can be
// tested anywhere from literals.

#ifndef GEMMD_KERNELS_DEVICE_INFO_H_
#define GEMMD_KERNELS_DEVICE_INFO_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace gemm {

struct DeviceInfo {
  int ordinal = 0;
  std::string name;            // "NVIDIA H200"
  std::string uuid;            // "GPU-…", as nvidia-smi prints it
  int compute_capability = 0;  // major * 10 + minor
  int multiprocessors = 0;
  int max_threads_per_multiprocessor = 0;
  size_t shared_bytes_per_block = 0;  // with opt-in
  size_t shared_bytes_per_multiprocessor = 0;
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;
  // Rates for the cost model: from the device's clocks and widths, not measured.
  double f32_flops_per_second = 0;
  double f64_flops_per_second = 0;
  double memory_bytes_per_second = 0;
};

}  // namespace gemm

#endif  // GEMMD_KERNELS_DEVICE_INFO_H_
