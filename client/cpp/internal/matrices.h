// Calls about matrices that stay on the server, and transfers of many calls each.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_MATRICES_H_
#define GEMMD_CLIENT_CPP_INTERNAL_MATRICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/internal/blocking_calls.h"
#include "client/cpp/internal/checked_rows.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/panels.h"
#include "gemmd/client.h"
#include "gemmd/matrix.h"

namespace gemm::client {

// Thread-safe.
class Matrices {
 public:
  // All but the server's address must outlive this.
  Matrices(const std::string& address, const Connection& first, BlockingCalls& calls,
           Panels& panels);

  absl::StatusOr<MatrixInfo> Create(CreateMatrixArgs args);
  absl::StatusOr<MatrixInfo> Info(const std::string& name);
  absl::StatusOr<std::vector<MatrixInfo>> List();
  absl::Status Delete(const std::string& name);

  absl::StatusOr<MatrixInfo> Put(const CheckedPut& put, bool exist_ok,
                                 const OnTransfer& on_transfer);
  absl::StatusOr<MatrixInfo> Get(const MatrixRows& rows, ElementSpan target,
                                 const OnTransfer& on_transfer);

 private:
  absl::StatusOr<MatrixInfo> PutOnce(const CheckedPut& put, bool exist_ok,
                                     const OnTransfer& on_transfer);

  const int64_t panel_bytes_;
  const Connection& first_;
  BlockingCalls& calls_;
  Panels& panels_;
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_MATRICES_H_
