// What does not fit one message, cut into panels of rows: a call each, over several connections.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_PANELS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_PANELS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/internal/blocking_calls.h"
#include "client/cpp/internal/connection.h"
#include "gemmd/client.h"
#include "gemmd/matrix.h"
#include "gemmd/server_info.h"

namespace gemm::client {

// Rows, each of which takes so many bytes of a message on its longer way.
struct Rows {
  int64_t count = 0;
  int64_t bytes = 0;        // of one
  int64_t panel_bytes = 0;  // to be aimed at
};

// Thread-safe.
class Panels {
 public:
  // `first` and `calls` must outlive this.
  Panels(const ClientOptions& options, const Connection& first, BlockingCalls& calls);

  // How long the server is to keep what is there for the calls of one product. Each of these names
  // it once its message has arrived; what is left by a caller that dies is gone soon.
  absl::StatusOr<absl::Duration> TemporaryLife();

  // A call for `count` rows from `begin` on. Several at a time, on threads of their own, each over
  // a connection that carries no other panel meanwhile, of whatever Move.
  using MovePanel =
      absl::FunctionRef<absl::Status(const Connection&, int64_t begin, int64_t count)>;

  // All of `rows`, over fewer connections where the server has no room for so many calls at once.
  // After the first failure none begins.
  absl::Status Move(const Rows& rows, const OnTransfer& on_transfer, MovePanel move);

 private:
  class Borrowed;

  absl::StatusOr<ServerInfo> AskServer();
  absl::StatusOr<int64_t> RowsOfPanel(const Rows& rows);

  const ClientOptions options_;
  const Connection& first_;
  BlockingCalls& calls_;

  absl::Mutex mutex_;
  std::vector<const Connection*> idle_ ABSL_GUARDED_BY(mutex_);            // that carry no panel
  std::vector<std::unique_ptr<Connection>> more_ ABSL_GUARDED_BY(mutex_);  // all but first_
  std::optional<ServerInfo> server_ ABSL_GUARDED_BY(mutex_);               // none: not asked yet
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_PANELS_H_
