// Calls about matrices that stay on the server, and transfers of many calls each.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_MATRICES_H_
#define GEMMD_CLIENT_CPP_INTERNAL_MATRICES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/internal/blocking_calls.h"
#include "client/cpp/internal/checked_rows.h"
#include "client/cpp/internal/connection.h"
#include "gemmd/client.h"
#include "gemmd/matrix.h"

namespace gemm::client {

// Thread-safe.
class Matrices {
 public:
  // `first` and `calls` must outlive this.
  Matrices(const ClientOptions& options, const Connection& first, BlockingCalls& calls);

  absl::StatusOr<MatrixInfo> Create(CreateMatrixArgs args);
  absl::StatusOr<MatrixInfo> Info(const std::string& name);
  absl::StatusOr<std::vector<MatrixInfo>> List();
  absl::Status Delete(const std::string& name);

  absl::StatusOr<MatrixInfo> Put(const CheckedPut& put, bool exist_ok,
                                 const OnTransfer& on_transfer);
  absl::StatusOr<MatrixInfo> Get(const MatrixRows& rows, ElementSpan target,
                                 const OnTransfer& on_transfer);

 private:
  // A call for `count` rows from `begin` on.
  using MovePanel =
      absl::FunctionRef<absl::Status(const Connection&, int64_t begin, int64_t count)>;

  // All of `rows` in panels, over several connections at once. After the first failure none begins.
  absl::Status MovePanels(int64_t rows, int64_t row_bytes, const OnTransfer& on_transfer,
                          MovePanel move);
  absl::StatusOr<int64_t> PanelRows(int64_t rows, int64_t row_bytes);
  absl::StatusOr<MatrixInfo> PutOnce(const CheckedPut& put, bool exist_ok,
                                     const OnTransfer& on_transfer);
  const Connection& Channel(int index);

  const ClientOptions options_;
  const Connection& first_;
  BlockingCalls& calls_;
  std::atomic<uint64_t> server_limit_bytes_ = 0;  // of a message; 0: not asked yet

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> more_ ABSL_GUARDED_BY(mutex_);  // beside first_
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_MATRICES_H_
