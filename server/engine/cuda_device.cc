#include "server/engine/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda_device_info.h"
#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"
#include "kernels/registry.h"
#include "kernels/select.h"
#include "server/memory/pinned_memory.h"
#include "server/reason.h"

// For functions that return absl::Status.
#define GEMM_RETURN_IF_CUDA_FAILS(what, expression)                                         \
  do {                                                                                      \
    if (const cudaError_t gemm_cuda_error = (expression); gemm_cuda_error != cudaSuccess) { \
      return CudaFailure(what, gemm_cuda_error);                                            \
    }                                                                                       \
  } while (false)

namespace gemm {
namespace {

constexpr size_t kArgsBytes = 64 << 10;  // of one launch; grown when a plan asks for more

absl::Status CudaFailure(std::string_view what, cudaError_t error) {
  cudaGetLastError();  // an error that is not sticky must not show up in the next call
  if (error == cudaErrorMemoryAllocation) {
    return ErrorWithReason(Reason::kMemoryFull,
                           absl::StrCat("the device has not enough free memory for this product (",
                                        std::string(what), ")"));
  }
  return ErrorWithReason(Reason::kDeviceFailed,
                         absl::StrCat(std::string(what), ": ", CudaErrorText(error)));
}

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
    GEMM_RETURN_IF_CUDA_FAILS("creating the stream", stream_.Create());
    for (Event* event : {&start_, &copied_in_, &computed_, &copied_out_}) {
      GEMM_RETURN_IF_CUDA_FAILS("creating an event", event->Create());
    }
    GEMM_RETURN_IF_CUDA_FAILS("allocating launch arguments", args_.Create(kArgsBytes));
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

  absl::Status Run(Job& job) override {
    const Selection selection = Select(job.problem, info_, families_, force_kernel_);
    if (selection.kernel.family == nullptr) {
      return ErrorWithReason(Reason::kUnsupported, selection.reason);
    }
    job.report.device = description_.name;
    job.report.device_index = description_.index;
    job.report.kernel = selection.kernel.get().name;
    job.report.kernel_family = selection.kernel.family->name();

    absl::Status status = Execute(selection.kernel, job);
    if (!status.ok()) {
      // Nothing of this job may touch its buffers after it is finished.
      if (IsPoisoning(cudaStreamSynchronize(stream_.get()))) {
        lost_.store(true, std::memory_order_release);
      }
      cudaGetLastError();
    }
    return status;
  }

 private:
  absl::Status Execute(const KernelRef& kernel, Job& job) {
    GEMM_RETURN_IF_CUDA_FAILS("cudaSetDevice", cudaSetDevice(info_.ordinal));
    const cudaStream_t stream = stream_.get();
    const std::span<const Problem> problems(&job.problem, 1);
    const Plan plan = kernel.family->MakePlan(problems, info_, kernel.config);
    job.report.launches = plan.launches;

    AsyncBuffer input(stream), output(stream), workspace(stream), device_args(stream);
    GEMM_RETURN_IF_CUDA_FAILS("operands", input.Create(job.input.size_bytes()));
    GEMM_RETURN_IF_CUDA_FAILS("result", output.Create(job.output.size_bytes()));
    GEMM_RETURN_IF_CUDA_FAILS("workspace", workspace.Create(plan.workspace_bytes));
    GEMM_RETURN_IF_CUDA_FAILS("arguments", device_args.Create(plan.device_args_bytes));
    if (plan.args_bytes > args_.bytes()) {
      GEMM_RETURN_IF_CUDA_FAILS("arguments", args_.Create(plan.args_bytes));
    }

    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(start_.get(), stream));
    if (!job.input.empty()) {
      GEMM_RETURN_IF_CUDA_FAILS(
          "copying operands in",
          cudaMemcpyAsync(input.data(), job.input.data(), job.input.size_bytes(),
                          cudaMemcpyHostToDevice, stream));
    }
    const auto address = [&input](const InputSpan& span) -> const void* {
      return span.size_bytes == 0 ? nullptr : input.data() + span.offset_bytes;
    };
    const Operands operands{address(job.a), address(job.b), address(job.c), output.data()};
    kernel.family->Encode(plan, problems, std::span<const Operands>(&operands, 1), args_.data());
    if (plan.device_args_bytes > 0) {
      GEMM_RETURN_IF_CUDA_FAILS(
          "copying arguments in",
          cudaMemcpyAsync(device_args.data(), args_.data(), plan.device_args_bytes,
                          cudaMemcpyHostToDevice, stream));
    }
    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(copied_in_.get(), stream));
    GEMM_RETURN_IF_CUDA_FAILS(
        job.report.kernel,
        kernel.family->Launch(plan, args_.data(), device_args.data(), workspace.data(), stream));
    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(computed_.get(), stream));
    GEMM_RETURN_IF_CUDA_FAILS(
        "copying the result out",
        cudaMemcpyAsync(job.output.data(), output.data(), job.output.size_bytes(),
                        cudaMemcpyDeviceToHost, stream));
    GEMM_RETURN_IF_CUDA_FAILS("recording an event", cudaEventRecord(copied_out_.get(), stream));
    GEMM_RETURN_IF_CUDA_FAILS(job.report.kernel, cudaEventSynchronize(copied_out_.get()));

    job.report.copy_in = Between(start_, copied_in_);
    job.report.compute = Between(copied_in_, computed_);
    job.report.copy_out = Between(computed_, copied_out_);
    return absl::OkStatus();
  }

  const DeviceInfo info_;
  const std::string force_kernel_;
  DeviceDescription description_;
  std::vector<const KernelFamily*> families_;
  std::vector<std::string> kernel_names_;
  PinnedMemory memory_;
  Stream stream_;
  Event start_, copied_in_, computed_, copied_out_;
  PinnedBuffer args_;
  std::atomic<bool> lost_{false};
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
