// One call whose request or reply carries matrices, from the arguments to the result in place.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_BULK_CALL_H_
#define GEMMD_CLIENT_CPP_INTERNAL_BULK_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/internal/borrowed_memory.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/checked_rows.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/unary_call.h"
#include "gemmd/client.h"

namespace gemm::client {

// Request is CheckedProduct, CheckedBatch, CheckedWrite or CheckedRead.
template <typename Request>
class BulkCall : public std::enable_shared_from_this<BulkCall<Request>> {
 public:
  using Report = typename Request::Report;

  // Encodes; an error when the request or its reply would be too large. The connection must live
  // until the call is over.
  static absl::StatusOr<std::shared_ptr<BulkCall>> Create(const Connection& connection,
                                                          const ClientOptions& options,
                                                          Request request);

  // Calls `over` once, when the server has answered or will not and the operands are the caller's
  // again: on this thread or in the depths of gRPC, where it must be quick and must not call gRPC.
  void Start(absl::AnyInvocable<void()> over);

  // After `over`, once: copies results into place and reports.
  absl::StatusOr<Report> Finish();

  const std::shared_ptr<UnaryCall>& unary_call() const { return call_; }

 private:
  explicit BulkCall(Request request) : request_(std::move(request)) {}

  const Request request_;
  const absl::Time start_ = absl::Now();
  BorrowedMemory memory_;
  std::shared_ptr<UnaryCall> call_;
  uint64_t request_bytes_ = 0;
  UnaryCall::Outcome outcome_;
};

extern template class BulkCall<CheckedProduct>;
extern template class BulkCall<CheckedBatch>;
extern template class BulkCall<CheckedWrite>;
extern template class BulkCall<CheckedRead>;

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_BULK_CALL_H_
