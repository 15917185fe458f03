// The gRPC face of the server: everything that knows gRPC is in this folder.

#ifndef GEMMD_SERVER_RPC_RPC_SERVER_H_
#define GEMMD_SERVER_RPC_RPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/memory/matrix_store.h"
#include "server/telemetry/metrics.h"

namespace gemm {

struct RpcOptions {
  // At least one of the two is not empty.
  std::string listen_address = "127.0.0.1:50051";     // port 0 picks a free one
  std::string unix_path;                              // of a UNIX socket
  uint64_t message_limit_bytes = uint64_t{64} << 20;  // a request, and a reply
  // Message bytes admitted at once; what comes beyond waits in line with its message unread.
  uint64_t admission_budget_bytes = uint64_t{1} << 30;
  int admission_line_limit = 1024;  // calls that may wait in line; more are refused
  // How long a message may take to arrive, beside its bytes at 10 MB/s.
  absl::Duration receive_timeout = absl::Seconds(60);
  absl::Duration matrix_ttl_limit = absl::Hours(24);  // the longest that may be asked for
  bool reflection = false;
  int executor_threads = 0;  // for decoding and replies; 0: one for each two cores, at least 2
  std::string version;
  std::string commit;
};

// Thread-safe. Life: Start, SetServing(true), then at the end SetServing(false), Refuse, Shutdown.
class RpcServer {
 public:
  // Binds and listens; health says NOT_SERVING until SetServing. `engine`, `matrices` and `metrics`
  // must outlive the server. FAILED_PRECONDITION when an address cannot be bound (in use, not
  // ours).
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcOptions& options, Engine& engine,
                                                          MatrixStore& matrices, Metrics& metrics);
  virtual ~RpcServer() = default;

  virtual int port() const = 0;  // of listen_address
  // What health answers, Check and Watch alike. Never makes a call fail.
  virtual void SetServing(bool serving) = 0;
  // From now on new product calls get UNAVAILABLE (DRAINING); those taken go on.
  virtual void Refuse() = 0;
  // Refuses, waits until products in flight are answered and what was sent has arrived, gives up
  // messages that do not come, and ends Watch streams. Never longer than until `deadline`,
  // a time of SteadyNow.
  virtual void Drain(absl::Time deadline) = 0;
  // Drains, then cancels what is left and waits for its end: a product on a device has to return.
  virtual void Shutdown(absl::Time deadline) = 0;

  virtual uint64_t admitted_bytes() const = 0;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_RPC_SERVER_H_
