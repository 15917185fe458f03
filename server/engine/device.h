// The single virtual seam of the engine: something that can run jobs. CudaDevice and CpuDevice are
// the real ones; tests have a puppet.

#ifndef GEMMD_SERVER_ENGINE_DEVICE_H_
#define GEMMD_SERVER_ENGINE_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/engine/job.h"
#include "server/memory/host_memory.h"

namespace gemm {

struct DeviceDescription {
  int index = 0;
  std::string name;  // "NVIDIA H200", "cpu"
  std::string uuid;  // empty on the CPU
  std::string kind;  // "cuda", "cpu"
  int compute_capability = 0;
  int multiprocessors = 0;  // cores on the CPU
  uint64_t memory_bytes = 0;
};

struct KernelVerdict {
  std::string kernel;
  std::string why_not;  // empty: it can run the problem
  double modelled_seconds = 0;
};

struct KernelExplanation {
  std::string chosen;  // empty: nothing can
  std::string reason;
  std::vector<KernelVerdict> candidates;  // in the order in which they are considered
};

// Thread-safety: Run is called by one thread at a time, the device's worker; the rest from any.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceDescription& description() const = 0;
  virtual const std::vector<std::string>& kernel_names() const = 0;

  // Where the host buffers of jobs for this device should come from (page-locked for a GPU).
  virtual HostMemory& host_memory() = 0;

  // `problem` has passed Validate.
  virtual KernelExplanation Explain(const Problem& problem) const = 0;

  // Computes the job's product into job.output and fills its report's kernel, device and phases.
  // Blocks until the result is there. An error concerns this job alone unless lost() is then true.
  virtual absl::Status Run(Job& job) = 0;

  // True once an error has made the device unusable for good (a poisoned CUDA context).
  virtual bool lost() const = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_DEVICE_H_
