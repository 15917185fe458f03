#include "server/engine/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "kernels/select.h"
#include "server/engine/cuda_failure.h"
#include "server/engine/cuda_matrices.h"
#include "server/memory/pinned_memory.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr size_t kArgsBytes = 64 << 10;  // of one batch; grown when plans ask for more

// Three large jobs, so that one's operands come in and another's result goes out while a third
// computes; two batches of small ones, so that one is prepared while the other runs.
constexpr LaneKind kLanes[] = {LaneKind::kSmall, LaneKind::kSmall, LaneKind::kAny, LaneKind::kAny,
                               LaneKind::kAny};

// Stream-ordered device memory, given back to the device's pool in stream order.
class AsyncBuffer {
 public:
  explicit AsyncBuffer(cudaStream_t stream) : stream_(stream) {}
  ~AsyncBuffer() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  AsyncBuffer(const AsyncBuffer&) = delete;
  AsyncBuffer& operator=(const AsyncBuffer&) = delete;

  cudaError_t Create(size_t bytes) {
    return bytes == 0 ? cudaSuccess : cudaMallocAsync(&data_, bytes, stream_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

absl::Duration Between(const Event& from, const Event& to) {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, from.get(), to.get()) != cudaSuccess) {
    return absl::ZeroDuration();
  }
  return absl::Milliseconds(milliseconds);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(DeviceInfo info, std::string force_kernel)
      : info_(std::move(info)), force_kernel_(std::move(force_kernel)) {
    description_.index = info_.ordinal;
    description_.name = info_.name;
    description_.uuid = info_.uuid;
    description_.kind = "cuda";
    description_.compute_capability = info_.compute_capability;
    description_.multiprocessors = info_.multiprocessors;
    description_.memory_bytes = info_.memory_bytes;
  }

  ~CudaDevice() override { cudaSetDevice(info_.ordinal); }  // the owners below free on it

  absl::Status Open() {
    GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(info_.ordinal));
    if (absl::Status status = OpenLanes(); !status.ok()) return status;
    if (absl::Status status = matrices_.Open(); !status.ok()) return status;
    // Keep freed memory in the pool: giving it back to the driver costs more than a small product.
    cudaMemPool_t pool = nullptr;
    GEMM_RETURN_IF_CUDA_FAILS("cudaDeviceGetDefaultMemPool",
                              cudaDeviceGetDefaultMemPool(&pool, info_.ordinal));
    uint64_t keep_all = UINT64_MAX;
    GEMM_RETURN_IF_CUDA_FAILS(
        "cudaMemPoolSetAttribute",
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));

    for (const KernelFamily* family : Families()) {
      // A family that cannot be loaded is left out; the reference must be there.
      const cudaError_t error = family->Prepare(info_);
      if (error == cudaSuccess) {
        families_.push_back(family);
        for (const KernelConfig& config : family->configs()) {
          kernel_names_.emplace_back(config.name);
        }
      } else if (IsPoisoning(error) || family == Families().back()) {
        return CudaFailure(absl::StrCat("loading the kernels of ", std::string(family->name())),
                           error);
      } else {
        cudaGetLastError();
      }
    }
    if (!force_kernel_.empty() && std::find(kernel_names_.begin(), kernel_names_.end(),
                                            force_kernel_) == kernel_names_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--force-kernel: no kernel is named '", force_kernel_, "' on ", info_.name));
    }
    return absl::OkStatus();
  }

  const DeviceDescription& description() const override { return description_; }
  const std::vector<std::string>& kernel_names() const override { return kernel_names_; }
  HostMemory& host_memory() override { return memory_; }
  bool lost() const override { return lost_.load(std::memory_order_acquire); }

  KernelExplanation Explain(const Problem& problem) const override {
    const Selection selection = gemm::Explain(problem, info_, families_, force_kernel_);
    KernelExplanation explanation;
    if (selection.kernel.family != nullptr) explanation.chosen = selection.kernel.get().name;
    explanation.reason = selection.reason;
    for (const Candidate& candidate : selection.candidates) {
      explanation.candidates.push_back({std::string(candidate.kernel.get().name), candidate.why_not,
                                        candidate.modelled_seconds});
    }
    return explanation;
  }

  std::vector<LaneKind> lanes() const override {
    std::vector<LaneKind> kinds;
    for (const std::unique_ptr<Lane>& lane : lanes_) kinds.push_back(lane->kind);
    return kinds;
  }

  absl::StatusOr<std::unique_ptr<DeviceMatrix>> AllocateMatrix(const MatrixSpec& spec) override {
    return matrices_.Allocate(spec);
  }
  absl::Status WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next) override {
    return matrices_.WriteRows(matrix, rows, next);
  }
  absl::Status ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to) override {
    return matrices_.ReadRows(matrix, rows, to);
  }

  void Run(int lane, Batch& batch) override {
    std::vector<Task> tasks = MakeTasks(batch);
    RunTasks(*lanes_[lane], tasks, batch);
    // Together they did not fit into the device's memory; each by itself may.
    if (tasks.size() < 2) return;
    for (Task& task : tasks) {
      if (ReasonOf(task.product->status) != Reason::kMemoryFull) continue;
      task.product->status = absl::OkStatus();
      RunTasks(*lanes_[lane], std::span<Task>(&task, 1), batch);
    }
  }

 private:
  // One batch's way through the device: a stream of its own, so that its copies run beside the
  // compute of other lanes.
  struct Lane {
    LaneKind kind;
    Stream stream;
    Event start, copied_in, computed, copied_out;
    PinnedBuffer args;
  };

  // One product of a batch, chosen and planned.
  struct Task {
    Job* job;
    JobProduct* product;
    KernelRef kernel;
    Plan plan;
    size_t input_offset = 0;        // of the job's input in the batch's device memory
    size_t output_offset = 0;       // of the job's output there
    size_t args_offset = 0;         // into the lane's pinned arguments
    size_t device_args_offset = 0;  // into the batch's device memory
  };

  absl::Status OpenLanes() {
    // Blocks of a higher-priority stream go first whenever a multiprocessor has room, so small
    // products wait for tiles of a large one, not for all of it.
    int lowest_priority = 0;
    int highest_priority = 0;
    GEMM_RETURN_IF_CUDA_FAILS(
        "cudaDeviceGetStreamPriorityRange",
        cudaDeviceGetStreamPriorityRange(&lowest_priority, &highest_priority));
    for (const LaneKind kind : kLanes) {
      auto lane = std::make_unique<Lane>();
      const bool small = kind == LaneKind::kSmall;
      lane->kind = kind;
      GEMM_RETURN_IF_CUDA_FAILS("creating a stream",
                                lane->stream.Create(small ? highest_priority : lowest_priority));
      for (Event* event : {&lane->start, &lane->copied_in, &lane->computed}) {
        GEMM_RETURN_IF_CUDA_FAILS("creating an event", event->Create());
      }
      // Waiting for a large job puts the thread to sleep; for a small one that would take longer
      // than the job.
      GEMM_RETURN_IF_CUDA_FAILS(
          "creating an event",
          lane->copied_out.Create(small ? cudaEventDefault : cudaEventBlockingSync));
      GEMM_RETURN_IF_CUDA_FAILS("allocating launch arguments", lane->args.Create(kArgsBytes));
      lanes_.push_back(std::move(lane));
    }
    return absl::OkStatus();
  }

  std::vector<Task> MakeTasks(const Batch& batch) const {
    std::vector<Task> tasks;
    tasks.reserve(batch.problems);
    for (const std::unique_ptr<Job>& job : batch.jobs) {
      for (JobProduct& product : job->products) {
        if (!NeedsDevice(product)) continue;
        if (std::optional<Task> task = MakeTask(*job, product)) tasks.push_back(*task);
      }
    }
    return tasks;
  }

  std::optional<Task> MakeTask(Job& job, JobProduct& product) const {
    const Selection selection = Select(product.problem, info_, families_, force_kernel_);
    if (selection.kernel.family == nullptr) {
      product.status = ErrorWithReason(Reason::kUnsupported, selection.reason);
      return std::nullopt;
    }
    Task task{.job = &job, .product = &product, .kernel = selection.kernel, .plan = {}};
    task.plan = task.kernel.family->MakePlan(std::span<const Problem>(&product.problem, 1), info_,
                                             task.kernel.config);
    product.report.device = description_.name;
    product.report.device_index = description_.index;
    product.report.kernel = task.kernel.get().name;
    product.report.kernel_family = task.kernel.family->name();
    product.report.launches = task.plan.launches;
    return task;
  }

  void RunTasks(Lane& lane, std::span<Task> tasks, Batch& batch) {
    if (tasks.empty()) return;
    const absl::Status status = Execute(lane, tasks, batch);
    if (status.ok()) return;
    // Nothing may touch the jobs' buffers after they are finished.
    if (IsPoisoning(cudaStreamSynchronize(lane.stream.get()))) {
      lost_.store(true, std::memory_order_release);
    }
    cudaGetLastError();
    for (Task& task : tasks) task.product->status.Update(status);
  }

  // The tasks of one job follow each other; the first brings its input in and its output out.
  static bool IsFirstOfJob(std::span<const Task> tasks, size_t i) {
    return i == 0 || tasks[i - 1].job != tasks[i].job;
  }

  // Gives every task its place in the batch's device memory and the lane's arguments. Workspace is
  // shared: the tasks run one after the other. Returns the bytes of device memory; the workspace is
  // at its start.
  static size_t Place(std::span<Task> tasks, size_t* args_bytes) {
    size_t device_bytes = 0;
    *args_bytes = 0;
    for (const Task& task : tasks) {
      device_bytes = std::max(device_bytes, AlignedSize(task.plan.workspace_bytes));
    }
    const auto place = [&device_bytes](size_t bytes) {
      const size_t offset = device_bytes;
      device_bytes += AlignedSize(bytes);
      return offset;
    };
    for (size_t i = 0; i < tasks.size(); ++i) {
      Task& task = tasks[i];
      if (IsFirstOfJob(tasks, i)) {
        task.input_offset = place(task.job->input.size_bytes());
        task.output_offset = place(task.job->output.size_bytes());
      } else {
        task.input_offset = tasks[i - 1].input_offset;
        task.output_offset = tasks[i - 1].output_offset;
      }
      task.device_args_offset = place(task.plan.device_args_bytes);
      task.args_offset = *args_bytes;
      *args_bytes += AlignedSize(task.plan.args_bytes);
    }
    return device_bytes;
  }

  // An error that concerns one task alone goes into its status; one that is returned concerns all.
  absl::Status Execute(Lane& lane, std::span<Task> tasks, Batch& batch) {
    GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(info_.ordinal));
    const cudaStream_t stream = lane.stream.get();
    size_t args_bytes = 0;
    const size_t device_bytes = Place(tasks, &args_bytes);
    AsyncBuffer memory(stream);
    GEMM_RETURN_IF_CUDA_FAILS("operands and result", memory.Create(device_bytes));
    if (args_bytes > lane.args.bytes()) {
      GEMM_RETURN_IF_CUDA_FAILS("launch arguments", lane.args.Create(args_bytes));
    }

    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(lane.start.get(), stream));
    for (size_t i = 0; i < tasks.size(); ++i) {
      const HostBuffer& input = tasks[i].job->input;
      if (IsFirstOfJob(tasks, i) && !input.empty()) {
        GEMM_RETURN_IF_CUDA_FAILS(
            "copying operands in",
            cudaMemcpyAsync(memory.data() + tasks[i].input_offset, input.data(), input.size_bytes(),
                            cudaMemcpyHostToDevice, stream));
      }
      GEMM_RETURN_IF_CUDA_FAILS("copying arguments in", CopyArgsIn(lane, tasks[i], memory.data()));
    }
    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(lane.copied_in.get(), stream));
    for (Task& task : tasks) {
      const cudaError_t error = task.kernel.family->Launch(task.plan, Args(lane, task),
                                                           memory.data() + task.device_args_offset,
                                                           memory.data(), stream);
      if (error != cudaSuccess) {
        task.product->status = CudaFailure(task.product->report.kernel, error);
      }
    }
    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(lane.computed.get(), stream));
    for (size_t first = 0, end = 0; first < tasks.size(); first = end) {
      for (end = first + 1; end < tasks.size() && !IsFirstOfJob(tasks, end);) ++end;
      GEMM_RETURN_IF_CUDA_FAILS("copying results out",
                                CopyOut(tasks.subspan(first, end - first), memory.data(), stream));
    }
    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(lane.copied_out.get(), stream));
    GEMM_RETURN_IF_CUDA_FAILS("computing", cudaEventSynchronize(lane.copied_out.get()));

    const absl::Duration copy_in = Between(lane.start, lane.copied_in);
    const absl::Duration compute = Between(lane.copied_in, lane.computed);
    const absl::Duration copy_out = Between(lane.computed, lane.copied_out);
    batch.compute += compute;
    for (Task& task : tasks) {
      task.product->report.copy_in = copy_in;
      task.product->report.compute = compute;
      task.product->report.copy_out = copy_out;
    }
    return absl::OkStatus();
  }

  static std::byte* Args(Lane& lane, const Task& task) {
    return static_cast<std::byte*>(lane.args.data()) + task.args_offset;
  }

  cudaError_t CopyArgsIn(Lane& lane, const Task& task, std::byte* memory) const {
    const JobProduct& product = *task.product;
    const auto address = [&](const InputSpan& span) -> const void* {
      return span.size_bytes == 0 ? nullptr : memory + task.input_offset + span.offset_bytes;
    };
    const Operands operands{address(product.a), address(product.b), address(product.c),
                            memory + task.output_offset + product.output_offset_bytes};
    task.kernel.family->Encode(task.plan, std::span<const Problem>(&product.problem, 1),
                               std::span<const Operands>(&operands, 1), Args(lane, task));
    if (task.plan.device_args_bytes == 0) return cudaSuccess;
    return cudaMemcpyAsync(memory + task.device_args_offset, Args(lane, task),
                           task.plan.device_args_bytes, cudaMemcpyHostToDevice, lane.stream.get());
  }

  // The results of tasks of one job, and no more: others of the job may have been computed before.
  static cudaError_t CopyOut(std::span<const Task> tasks, const std::byte* memory,
                             cudaStream_t stream) {
    const Task& first = tasks.front();
    const JobProduct& last = *tasks.back().product;
    const size_t begin = first.product->output_offset_bytes;
    return cudaMemcpyAsync(first.job->output.data() + begin, memory + first.output_offset + begin,
                           last.output_offset_bytes + last.output_bytes - begin,
                           cudaMemcpyDeviceToHost, stream);
  }

  const DeviceInfo info_;
  const std::string force_kernel_;
  DeviceDescription description_;
  std::vector<const KernelFamily*> families_;
  std::vector<std::string> kernel_names_;
  PinnedMemory memory_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<bool> lost_{false};
  CudaMatrices matrices_{info_.ordinal, lost_};
};

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(
    std::string_view force_kernel) {
  int driver_version = 0;
  cudaDriverGetVersion(&driver_version);
  if (driver_version < CUDART_VERSION) {
    return absl::FailedPreconditionError(
        driver_version == 0
            ? absl::StrCat("no NVIDIA driver was found; CUDA ", VersionText(CUDART_VERSION),
                           " is needed (driver 580 or newer). In a container, start it with "
                           "--gpus all")
            : absl::StrCat("the NVIDIA driver supports CUDA ", VersionText(driver_version),
                           "; CUDA ", VersionText(CUDART_VERSION),
                           " is needed (driver 580 or newer)"));
  }
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no usable NVIDIA GPU: ", CudaErrorText(error),
                     ". In a container, start it with --gpus all; else look at "
                     "CUDA_VISIBLE_DEVICES and nvidia-smi"));
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceInfo info;
    GEMM_RETURN_IF_CUDA_FAILS(absl::StrCat("reading GPU ", ordinal),
                              ReadDeviceInfo(ordinal, &info));
    auto device = std::make_unique<CudaDevice>(std::move(info), std::string(force_kernel));
    if (absl::Status status = device->Open(); !status.ok()) return status;
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<std::string> CudaKernelFamilies() {
  std::vector<std::string> names;
  for (const KernelFamily* family : Families()) names.emplace_back(family->name());
  return names;
}

}  // namespace gemm
