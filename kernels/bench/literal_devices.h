// Devices from literals: for explaining and testing choices on machines that have none.

#ifndef GEMMD_KERNELS_BENCH_LITERAL_DEVICES_H_
#define GEMMD_KERNELS_BENCH_LITERAL_DEVICES_H_

#include "kernels/device_info.h"

namespace gemm {

inline DeviceInfo H200() {
  DeviceInfo device;
  device.name = "NVIDIA H200";
  device.compute_capability = 90;
  device.multiprocessors = 132;
  device.max_threads_per_multiprocessor = 2048;
  device.shared_bytes_per_block = size_t{227} * 1024;
  device.shared_bytes_per_multiprocessor = size_t{228} * 1024;
  device.l2_bytes = size_t{60} << 20;
  device.memory_bytes = size_t{141} * 1000 * 1000 * 1000;
  device.f32_flops_per_second = 66.9e12;
  device.f64_flops_per_second = 33.5e12;
  device.memory_bytes_per_second = 4.9e12;
  return device;
}

// The same device, if it were one of the oldest kind that the portable kernels are built for.
inline DeviceInfo Portable(DeviceInfo device) {
  device.compute_capability = 80;
  return device;
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_BENCH_LITERAL_DEVICES_H_
