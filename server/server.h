// The whole server: devices, engine, metrics page and gRPC, put together, watched and taken down.

#ifndef GEMMD_SERVER_SERVER_H_
#define GEMMD_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/device.h"
#include "server/options.h"

namespace gemm {

std::string_view Version();  // "0.1.0"
std::string_view Commit();   // "unknown" when built outside a checkout

class Server {
 public:
  enum class End { kDrained, kDeviceLost };

  // Computes a small product to see that the devices work, listens, says SERVING, and logs "gemmd
  // listening" with the addresses. FAILED_PRECONDITION when a device computes nothing or something
  // wrong, or an address cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Options& options, std::vector<std::unique_ptr<Device>> devices);

  virtual ~Server() = default;

  // Where it listens, with the real ports; empty where it does not.
  virtual std::string grpc_address() const = 0;
  virtual std::string unix_address() const = 0;  // "unix:/run/gemmd/gemmd.sock"
  virtual std::string metrics_address() const = 0;

  // Blocks until RequestStop or until no device is left that works, and takes the server down:
  //   health says NOT_SERVING; serve on for drain_window; refuse new calls; wait for those in
  //   flight, at most drain_timeout, and cancel what is left; finish what is queued.
  // After kDeviceLost the process should end without destroying the server: a broken device may
  // never return from a call.
  virtual End Run() = 0;

  // Thread-safe; may come before Run.
  virtual void RequestStop() = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_SERVER_H_
