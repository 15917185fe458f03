#include "kernels/cuda_device_info.h"

#include <cstdio>

#include "kernels/cuda_status.h"

namespace gemm {
namespace {

// Fused multiply-adds that one multiprocessor starts in a cycle: the throughput table of the CUDA
// programming guide. An unknown, newer device is taken for the newest of its kind.
struct FmaPerCycle {
  int f32;
  int f64;
};
FmaPerCycle FmaRate(int compute_capability) {
  switch (compute_capability) {
    case 75:
      return {64, 2};
    case 80:
      return {64, 32};
    case 86:
    case 87:
    case 89:
    case 120:
    case 121:
      return {128, 2};
    default:
      return {128, 64};
  }
}

std::string FormatUuid(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    std::snprintf(byte, sizeof(byte), "%s%02x", dash ? "-" : "",
                  static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
  }
  return text;
}

}  // namespace

cudaError_t ReadDeviceInfo(int ordinal, DeviceInfo* info) {
  cudaDeviceProp properties;
  GEMM_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  int clock_khz = 0;
  int memory_clock_khz = 0;
  GEMM_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, ordinal));
  GEMM_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&memory_clock_khz, cudaDevAttrMemoryClockRate, ordinal));

  *info = {};
  info->ordinal = ordinal;
  info->name = properties.name;
  info->uuid = FormatUuid(properties.uuid);
  info->compute_capability = properties.major * 10 + properties.minor;
  info->multiprocessors = properties.multiProcessorCount;
  info->max_threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  info->shared_bytes_per_block = properties.sharedMemPerBlockOptin;
  info->shared_bytes_per_multiprocessor = properties.sharedMemPerMultiprocessor;
  info->l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  info->memory_bytes = properties.totalGlobalMem;
  const FmaPerCycle rate = FmaRate(info->compute_capability);
  const double cycles = 1e3 * clock_khz * properties.multiProcessorCount;
  info->f32_flops_per_second = 2 * cycles * rate.f32;
  info->f64_flops_per_second = 2 * cycles * rate.f64;
  // Two transfers a clock over the whole bus.
  info->memory_bytes_per_second = 2e3 * memory_clock_khz * properties.memoryBusWidth / 8;
  return cudaSuccess;
}

}  // namespace gemm
