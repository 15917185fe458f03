// Which devices there are, and which of them --device asks for.

#ifndef GEMMD_SERVER_OPEN_DEVICES_H_
#define GEMMD_SERVER_OPEN_DEVICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/device.h"
#include "server/options.h"

namespace gemm {

// What there is of NVIDIA hardware below `root`, the file system's: device nodes, and display or
// 3D controllers on PCI even where no driver has made nodes for them. Empty: none at all.
std::vector<std::string> FindNvidiaHardware(const std::string& root = "/");

// The devices that --device and --force-kernel ask for, at least one. INVALID_ARGUMENT for a kernel
// that is not there; FAILED_PRECONDITION, saying what was found and what is needed, for devices.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(const Options& options);

}  // namespace gemm

#endif  // GEMMD_SERVER_OPEN_DEVICES_H_
