#include "server/engine/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/ceiling.h"
#include "kernels/copy_pieces.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "kernels/select.h"
#include "server/engine/cuda_batch.h"
#include "server/engine/cuda_failure.h"
#include "server/engine/cuda_lane.h"
#include "server/engine/cuda_matrices.h"
#include "server/memory/pinned_memory.h"
#include "server/reason.h"

namespace gemm {
namespace {

// Three batches of anything, so that one's operands come in and another's results go out while a
// third computes; two of small jobs, so that one is prepared while the other runs; and single small
// jobs of as many threads as take calls on a host of 12 cores and more.
constexpr LaneKind kLanes[] = {LaneKind::kSmall, LaneKind::kSmall, LaneKind::kAny,  LaneKind::kAny,
                               LaneKind::kAny,   LaneKind::kLent,  LaneKind::kLent, LaneKind::kLent,
                               LaneKind::kLent,  LaneKind::kLent,  LaneKind::kLent};
constexpr uint64_t kAllScratchBytes =
    std::accumulate(std::begin(kLanes), std::end(kLanes), uint64_t{0},
                    [](uint64_t sum, LaneKind kind) { return sum + CudaLane::ScratchBytes(kind); });

// More operands take the long road.
constexpr size_t kMostShortBytes = size_t{16} << 20;

std::string GiB(uint64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(DeviceInfo info, const CudaOptions& options)
      : info_(std::move(info)),
        options_(options),
        memory_limit_bytes_(static_cast<uint64_t>(options.memory_fraction *
                                                  static_cast<double>(info_.memory_bytes))) {
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
    if (absl::Status status = CheckMemory(); !status.ok()) return status;
    shared_ = std::make_unique<CudaLane::Shared>(memory_limit_bytes_ - kAllScratchBytes);
    for (const LaneKind kind : kLanes) {
      auto& lane = lanes_.emplace_back(std::make_unique<CudaLane>(kind, *shared_));
      if (absl::Status status = lane->Open(); !status.ok()) return status;
    }
    // Keep freed memory in the pool: giving it back to the driver costs more than a small product.
    cudaMemPool_t pool = nullptr;
    GEMM_RETURN_IF_CUDA_FAILS("cudaDeviceGetDefaultMemPool",
                              cudaDeviceGetDefaultMemPool(&pool, info_.ordinal));
    uint64_t keep = shared_->memory.limit_bytes();
    GEMM_RETURN_IF_CUDA_FAILS(
        "cudaMemPoolSetAttribute",
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    if (absl::Status status = matrices_.Open(); !status.ok()) return status;
    if (absl::Status status = LoadKernels(); !status.ok()) return status;
    for (const DType dtype : kDTypes) {
      double& ceiling = description_.ceiling_flops_per_second[static_cast<size_t>(dtype)];
      GEMM_RETURN_IF_CUDA_FAILS("measuring the rate of multiply-adds",
                                MeasureCeiling(dtype, &ceiling));
    }
    if (!options_.force_kernel.empty() && std::find(kernel_names_.begin(), kernel_names_.end(),
                                                    options_.force_kernel) == kernel_names_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--force-kernel: no kernel is named '",
                                                     options_.force_kernel, "' on ", info_.name));
    }
    return absl::OkStatus();
  }

  const DeviceDescription& description() const override { return description_; }
  const std::vector<std::string>& kernel_names() const override { return kernel_names_; }
  HostMemory& host_memory() override { return memory_; }
  bool lost() const override { return lost_.load(std::memory_order_acquire); }

  MemoryUse working_memory() const override {
    return {kAllScratchBytes + shared_->memory.used_bytes(), memory_limit_bytes_};
  }

  KernelExplanation Explain(const Problem& problem) const override {
    const Selection selection = selector_->Explain(problem, options_.force_kernel);
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
    for (const std::unique_ptr<CudaLane>& lane : lanes_) kinds.push_back(lane->kind());
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

  void Run(int index, Batch& batch) override {
    CudaLane& lane = *lanes_[index];
    if (const cudaError_t error = cudaSetDevice(info_.ordinal); error != cudaSuccess) {
      Fail(batch, CudaFailure("cudaSetDevice", error));
      return;
    }
    const std::vector<CudaTask> tasks = Choose(lane, batch);
    RunTasks(lane, tasks, batch);
    // Together they did not fit into the device's memory; each by itself may.
    if (tasks.size() < 2) return;
    for (const CudaTask& task : tasks) {
      if (ReasonOf(task.product->status) != Reason::kMemoryFull) continue;
      task.product->status = absl::OkStatus();
      RunTasks(lane, {task}, batch);
    }
  }

 private:
  absl::Status CheckMemory() const {
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    GEMM_RETURN_IF_CUDA_FAILS("cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &all_bytes));
    const std::string asked = absl::StrCat("--device-memory ", options_.memory_fraction, " of ",
                                           info_.name, " is ", GiB(memory_limit_bytes_));
    if (memory_limit_bytes_ < 2 * kAllScratchBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(asked, ", less than the least that works, ", GiB(2 * kAllScratchBytes)));
    }
    if (memory_limit_bytes_ > free_bytes) {
      return absl::FailedPreconditionError(
          absl::StrCat(asked, ", but only ", GiB(free_bytes), " of its ", GiB(all_bytes),
                       " are free: lower it, or end what else uses the GPU"));
    }
    return absl::OkStatus();
  }

  absl::Status LoadKernels() {
    GEMM_RETURN_IF_CUDA_FAILS("loading the kernel that copies", PrepareCopyPieces());
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
    selector_.emplace(info_, families_);
    return absl::OkStatus();
  }

  static void Fail(Batch& batch, const absl::Status& status) {
    for (const std::unique_ptr<Job>& job : batch.jobs) {
      for (JobProduct& product : job->products) {
        if (NeedsDevice(product)) product.status = status;
      }
    }
  }

  KernelChoice ChooseFor(const Problem& problem) const {
    // A larger one fills the device by itself, and has kernels that are better at that.
    constexpr double kMostFlops = 2.0 * 512 * 512 * 256;
    KernelChoice choice;
    choice.alone = selector_->Select(problem, options_.force_kernel).kernel;
    if (choice.alone.family == nullptr || FlopCount(problem) > kMostFlops) return choice;
    if (choice.alone.family->Groups(choice.alone.config)) {
      choice.grouped = choice.alone;
    } else if (options_.force_kernel.empty()) {
      choice.grouped = selector_->SelectForGroup(problem, choice.alone);
    }
    return choice;
  }

  // The batch's products with their kernels; those that no kernel can run have failed.
  std::vector<CudaTask> Choose(CudaLane& lane, const Batch& batch) const {
    std::vector<CudaTask> tasks;
    tasks.reserve(batch.problems);
    for (const std::unique_ptr<Job>& job : batch.jobs) {
      for (JobProduct& product : job->products) {
        if (!NeedsDevice(product)) continue;
        const KernelChoice choice = lane.choices().Get(
            product.problem, [this](const Problem& problem) { return ChooseFor(problem); });
        if (choice.alone.family == nullptr) {
          product.status =
              ErrorWithReason(Reason::kUnsupported,
                              selector_->Select(product.problem, options_.force_kernel).reason);
          continue;
        }
        tasks.push_back({job.get(), &product, choice});
      }
    }
    return tasks;
  }

  // Small jobs are told by the bytes that come in, or are there already.
  static CudaRoad RoadOf(std::span<const CudaTask> tasks) {
    size_t bytes = 0;
    const Job* before = nullptr;
    for (const CudaTask& task : tasks) {
      if (task.job != before) bytes += AlignedSize(task.job->input.size_bytes());
      before = task.job;
      for (const InputSpan* span : {&task.product->a, &task.product->b, &task.product->c}) {
        if (span->matrix != nullptr) bytes += span->size_bytes;
      }
    }
    return bytes <= kMostShortBytes ? CudaRoad::kShort : CudaRoad::kLong;
  }

  void RunTasks(CudaLane& lane, const std::vector<CudaTask>& tasks, Batch& batch) {
    if (tasks.empty()) return;
    CudaBatch work(tasks, info_, RoadOf(tasks));
    if (work.road() != CudaRoad::kLong && work.device_bytes() > lane.scratch_bytes()) {
      CudaBatch long_work(tasks, info_, CudaRoad::kLong);
      RunWork(lane, long_work, batch);
    } else {
      RunWork(lane, work, batch);
    }
  }

  // What is known before anything runs.
  void Report(const CudaBatch& work) const {
    for (const CudaLaunch& launch : work.launches()) {
      for (const CudaTask& task : launch.tasks) {
        ExecutionReport& report = task.product->report;
        report.device = description_.name;
        report.device_index = description_.index;
        report.kernel = launch.kernel.get().name;
        report.kernel_family = launch.kernel.family->name();
        report.launches = 0;
      }
      launch.tasks.front().product->report.launches = launch.plan.launches;
    }
  }

  void RunWork(CudaLane& lane, CudaBatch& work, Batch& batch) {
    absl::Status status;
    const uint64_t most = shared_->memory.limit_bytes();
    if (work.road() == CudaRoad::kLong && work.device_bytes() > most) {
      const std::string text = absl::StrCat(
          work.device_bytes(), " bytes of device memory, more than ", most, " (--device-memory)");
      status = work.tasks().size() > 1
                   ? ErrorWithReason(Reason::kMemoryFull, absl::StrCat("the batch needs ", text))
                   : ErrorWithReason(Reason::kMemoryTooSmall,
                                     absl::StrCat("the product needs ", text), "product");
    } else {
      Report(work);
      bool poisoned = false;
      status = lane.Run(work, &batch.compute, &poisoned);
      if (poisoned) lost_.store(true, std::memory_order_release);
    }
    if (status.ok()) return;
    for (const CudaTask& task : work.tasks()) task.product->status.Update(status);
  }

  const DeviceInfo info_;
  const CudaOptions options_;
  const uint64_t memory_limit_bytes_;
  DeviceDescription description_;
  std::vector<const KernelFamily*> families_;
  std::optional<Selector> selector_;
  std::vector<std::string> kernel_names_;
  PinnedMemory memory_;
  std::unique_ptr<CudaLane::Shared> shared_;
  std::vector<std::unique_ptr<CudaLane>> lanes_;
  std::atomic<bool> lost_{false};
  CudaMatrices matrices_{info_.ordinal, lost_};
};

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(const CudaOptions& options) {
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
    auto device = std::make_unique<CudaDevice>(std::move(info), options);
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
