// What a batch becomes on a GPU: which products share a launch, and where every byte lies. Host
// arithmetic alone, which needs no GPU.

#ifndef GEMMD_SERVER_ENGINE_CUDA_BATCH_H_
#define GEMMD_SERVER_ENGINE_CUDA_BATCH_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/select.h"
#include "server/engine/job.h"
#include "server/engine/kernel_choices.h"

namespace gemm {

// One product, and the kernels that were chosen for it.
struct CudaTask {
  Job* job = nullptr;
  JobProduct* product = nullptr;
  KernelChoice choice;
};

// How a batch's bytes travel.
enum class CudaRoad {
  // Everything through device memory: kernels do not wait for PCIe.
  kLong,
  // Results of up to kMostDirectBytes in all go straight from the kernels into the jobs' memory: no
  // copy to ask for and to wait for. More take longer that way, since kernels write parts of rows.
  kShort,
};
inline constexpr size_t kMostDirectBytes = size_t{256} << 10;

// Products that go out together, by one plan.
struct CudaLaunch {
  KernelRef kernel;
  Plan plan;
  std::span<CudaTask> tasks;
  size_t args_offset = 0;  // of its arguments in the batch's
  size_t first = 0;        // index of the first task
};

// Between the memory of a job and the batch's device memory.
struct CudaCopy {
  std::byte* host = nullptr;
  size_t device_offset = 0;
  size_t bytes = 0;
};

// From a matrix on another device to the batch's device memory.
struct CudaCopyOver {
  const std::byte* from = nullptr;
  int from_device = 0;
  size_t device_offset = 0;
  size_t bytes = 0;
};

class CudaBatch {
 public:
  // Tasks in the order of jobs and products. Those with the same kernel for groups share a launch;
  // the bits of a result do not depend on whether it has company.
  CudaBatch(std::vector<CudaTask> tasks, const DeviceInfo& device, CudaRoad road);

  CudaBatch(const CudaBatch&) = delete;
  CudaBatch& operator=(const CudaBatch&) = delete;

  // No more in the order in which they came.
  std::span<CudaTask> tasks() { return tasks_; }
  std::span<const CudaLaunch> launches() const { return launches_; }
  CudaRoad road() const { return road_; }

  // The device memory that all of it takes. The workspace, which the launches share since they run
  // one after the other, is at its start.
  size_t device_bytes() const { return device_bytes_; }
  // The host memory that the arguments take, and the leading part of it that the device needs a
  // copy of, at tables_offset() of its memory.
  size_t args_bytes() const { return args_bytes_; }
  size_t table_bytes() const { return table_bytes_; }
  size_t tables_offset() const { return tables_offset_; }

  std::span<const CudaCopy> copies_in() const { return copies_in_; }    // without the arguments
  std::span<const CudaCopy> copies_out() const { return copies_out_; }  // of what is not direct
  std::span<const CudaCopyOver> copies_over() const { return copies_over_; }
  // Writes the arguments for device memory at `memory`.
  void Encode(std::byte* memory, std::byte* args) const;

 private:
  // Where the bytes of a task's job lie in device memory.
  struct Place {
    size_t input_offset = 0;
    size_t output_offset = 0;
    bool direct = false;  // D is not in the batch's memory
    // Of A, B and C where they are brought over from another device.
    std::array<size_t, 3> over_offsets = {};
  };

  void MakeLaunches(const DeviceInfo& device);
  void PlaceBytes();
  bool IsElsewhere(const InputSpan& span) const {
    return span.matrix != nullptr && span.size_bytes > 0 && span.matrix->device() != ordinal_;
  }
  // Where the kernels find a task's operands and put its result.
  Operands OperandsOf(size_t task, std::byte* memory) const;

  const CudaRoad road_;
  const int ordinal_;
  std::vector<CudaTask> tasks_;    // those of a launch adjacent
  std::vector<size_t> order_;      // the tasks in the order in which they came
  std::vector<Problem> problems_;  // theirs
  std::vector<Place> places_;      // theirs
  std::vector<CudaLaunch> launches_;
  std::vector<CudaCopy> copies_in_;
  std::vector<CudaCopy> copies_out_;
  std::vector<CudaCopyOver> copies_over_;
  size_t device_bytes_ = 0;
  size_t args_bytes_ = 0;
  size_t table_bytes_ = 0;
  size_t tables_offset_ = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CUDA_BATCH_H_
