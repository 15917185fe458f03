// The single virtual seam of the engine: something that can run jobs. CudaDevice and CpuDevice are
// the real ones; tests have a puppet.

#ifndef GEMMD_SERVER_ENGINE_DEVICE_H_
#define GEMMD_SERVER_ENGINE_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/gemm.h"
#include "server/engine/job.h"
#include "server/memory/device_matrix.h"
#include "server/memory/host_memory.h"
#include "server/memory/row_set.h"

namespace gemm {

inline constexpr std::array kDTypes = {DType::kF32, DType::kF64};  // in the order of their values

struct DeviceDescription {
  int index = 0;     // among the devices of the server
  std::string name;  // "NVIDIA H200", "cpu"
  std::string uuid;  // empty on the CPU
  std::string kind;  // "cuda", "cpu"
  int compute_capability = 0;
  int multiprocessors = 0;  // cores on the CPU
  uint64_t memory_bytes = 0;
  // By DType, measured when the device was opened: what it computes while no byte moves. 0:
  // unknown.
  std::array<double, kDTypes.size()> ceiling_flops_per_second{};
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
  int device = 0;         // its index
  // Set by the device: how long it computed for them all.
  absl::Duration compute = absl::ZeroDuration();
};

// Copies the next so many bytes of rows, which are dense, to where it is told.
using RowSource = absl::FunctionRef<void(std::byte* to, size_t bytes)>;

// Of a device's memory, what the batches that it runs have and may have.
struct MemoryUse {
  uint64_t used_bytes = 0;
  uint64_t limit_bytes = 0;
};

// What a lane is for. Small jobs have lanes of their own, so that they need not wait for large
// ones: kSmall for batches of them, kLent for single ones, each on the thread of whoever submits
// it.
enum class LaneKind { kSmall, kAny, kLent };

// Thread-safety: Run is called by one thread at a time for each lane; the rest from any.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceDescription& description() const = 0;
  virtual const std::vector<std::string>& kernel_names() const = 0;

  // Where the host buffers of jobs for this device should come from (page-locked for a GPU).
  virtual HostMemory& host_memory() = 0;

  // Zeros where batches run in host memory.
  virtual MemoryUse working_memory() const { return {}; }

  // Batches that may be under way at once, each in a lane: while one computes, another's operands
  // are copied in and a third's results out. The same for every call.
  virtual std::vector<LaneKind> lanes() const = 0;

  // `problem` has passed Validate.
  virtual KernelExplanation Explain(const Problem& problem) const = 0;

  // Computes each product that needs the device into its job's output, fills its report, and sets
  // its status where it fails. Blocks until the results are there. An error concerns its product
  // alone unless lost() is then true.
  virtual void Run(int lane, Batch& batch) = 0;

  // Memory for a matrix that has elements, their values undefined. UNAVAILABLE (MEMORY_FULL) when
  // there is none for the moment.
  virtual absl::StatusOr<std::unique_ptr<DeviceMatrix>> AllocateMatrix(const MatrixSpec& spec) = 0;

  // Writes rows of a matrix of this device, taken from `next` piece by piece. Blocks until they are
  // there, first until fewer than a bounded number of copies are under way.
  virtual absl::Status WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next) = 0;

  // Copies rows of a matrix of this device to `to`, which comes from host_memory(), dense.
  virtual absl::Status ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to) = 0;

  // True once an error has made the device unusable for good (a poisoned CUDA context).
  virtual bool lost() const = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_DEVICE_H_
