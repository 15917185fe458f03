// The single virtual seam of the engine: something that can run jobs. CudaDevice and CpuDevice are
// the real ones; tests have a puppet.

#ifndef GEMMD_SERVER_ENGINE_DEVICE_H_
#define GEMMD_SERVER_ENGINE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
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

// Jobs that go to a device together.
struct Batch {
  std::vector<std::unique_ptr<Job>> jobs;
  uint32_t problems = 0;  // products of theirs that need the device
  // Set by the device: how long it computed for them all.
  absl::Duration compute = absl::ZeroDuration();
};

// What a lane is for. Small jobs have lanes of their own, so that they need not wait for large
// ones.
enum class LaneKind { kSmall, kAny };

// Thread-safety: Run is called by one thread at a time for each lane; the rest from any.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceDescription& description() const = 0;
  virtual const std::vector<std::string>& kernel_names() const = 0;

  // Where the host buffers of jobs for this device should come from (page-locked for a GPU).
  virtual HostMemory& host_memory() = 0;

  // Batches that may be under way at once, each in a lane: while one computes, another's operands
  // are copied in and a third's results out. The same for every call.
  virtual std::vector<LaneKind> lanes() const = 0;

  // `problem` has passed Validate.
  virtual KernelExplanation Explain(const Problem& problem) const = 0;

  // Computes each product that needs the device into its job's output, fills its report, and sets
  // its status where it fails. Blocks until the results are there. An error concerns its product
  // alone unless lost() is then true.
  virtual void Run(int lane, Batch& batch) = 0;

  // True once an error has made the device unusable for good (a poisoned CUDA context).
  virtual bool lost() const = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_DEVICE_H_
