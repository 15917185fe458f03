#include "server/open_devices.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/engine/cpu_device.h"
#include "server/telemetry/logging.h"
#if GEMMD_WITH_CUDA
#include "server/engine/cuda_device.h"
#endif

namespace gemm {
namespace {

namespace fs = std::filesystem;

using Devices = std::vector<std::unique_ptr<Device>>;

std::string FirstWord(const fs::path& file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

std::vector<fs::path> List(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<Devices> OpenCpu(const std::string& force_kernel) {
  Devices devices;
  devices.push_back(OpenCpuDevice());
  const std::vector<std::string>& kernels = devices.front()->kernel_names();
  if (!force_kernel.empty() && (kernels.size() > 1 || kernels.front() != force_kernel)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--force-kernel: the CPU has one kernel for each type and no choice (",
                     absl::StrJoin(kernels, ", "), ")"));
  }
  return devices;
}

absl::StatusOr<Devices> OpenGpus([[maybe_unused]] const Options& options) {
#if GEMMD_WITH_CUDA
  return OpenCudaDevices({options.force_kernel, options.device_memory});
#else
  return absl::FailedPreconditionError("this gemmd was built without CUDA");
#endif
}

}  // namespace

std::vector<std::string> FindNvidiaHardware(const std::string& root) {
  std::vector<std::string> found;
  const fs::path top(root);
  for (const fs::path& node : List(top / "dev")) {
    const std::string name = node.filename().string();
    if (absl::StartsWith(name, "nvidia")) found.push_back("/dev/" + name);
  }
  for (const fs::path& device : List(top / "sys/bus/pci/devices")) {
    const bool is_display = absl::StartsWith(FirstWord(device / "class"), "0x03");
    if (is_display && FirstWord(device / "vendor") == "0x10de") {
      found.push_back("PCI device " + device.filename().string());
    }
  }
  const std::string driver = FirstWord(top / "sys/module/nvidia/version");
  if (!driver.empty() && !found.empty()) found.push_back("driver " + driver);
  return found;
}

absl::StatusOr<Devices> OpenDevices(const Options& options) {
  if (options.device == DeviceChoice::kCpu) return OpenCpu(options.force_kernel);
  absl::StatusOr<Devices> gpus = OpenGpus(options);
  if (gpus.ok() || absl::IsInvalidArgument(gpus.status())) return gpus;

  const std::vector<std::string> found = FindNvidiaHardware();
  if (options.device == DeviceChoice::kAuto && found.empty()) {
    Log(LogLevel::kInfo, "no NVIDIA device on this machine, computing on the CPU");
    return OpenCpu(options.force_kernel);
  }
  std::string text = absl::StrCat(std::string(gpus.status().message()), "; found ",
                                  found.empty() ? "no NVIDIA device" : absl::StrJoin(found, ", "));
  const bool has_node = std::any_of(found.begin(), found.end(), [](const std::string& what) {
    return absl::StartsWith(what, "/dev/");
  });
  if (!found.empty() && !has_node) {
    absl::StrAppend(&text,
                    ", but no /dev/nvidia*: a container needs --gpus all, a host the driver");
  }
  absl::StrAppend(&text, "; --device=cpu computes on the CPU");
  return absl::FailedPreconditionError(text);
}

}  // namespace gemm
