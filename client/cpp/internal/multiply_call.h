// One Multiply or MultiplyBatch, from the arguments to D.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_MULTIPLY_CALL_H_
#define GEMMD_CLIENT_CPP_INTERNAL_MULTIPLY_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/internal/borrowed_memory.h"
#include "client/cpp/internal/checked_product.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/unary_call.h"
#include "gemmd/client.h"
#include "gemmd/multiply.h"

namespace gemm::client {

// Product is CheckedProduct or CheckedBatch.
template <typename Product>
class MultiplyCall : public std::enable_shared_from_this<MultiplyCall<Product>> {
 public:
  using Report = std::conditional_t<std::is_same_v<Product, CheckedBatch>, MultiplyBatchReport,
                                    MultiplyReport>;

  // Encodes; an error when the request or its reply would be too large. The connection must live
  // until the call is over.
  static absl::StatusOr<std::shared_ptr<MultiplyCall>> Create(const Connection& connection,
                                                              const ClientOptions& options,
                                                              Product product);

  // Calls `over` once, when the server has answered or will not and the operands are the caller's
  // again: on this thread or in the depths of gRPC, where it must be quick and must not call gRPC.
  void Start(absl::AnyInvocable<void()> over);

  // After `over`, once: copies D into place and reports.
  absl::StatusOr<Report> Finish();

  const std::shared_ptr<UnaryCall>& unary_call() const { return call_; }

 private:
  explicit MultiplyCall(Product product) : product_(std::move(product)) {}

  const Product product_;
  const absl::Time start_ = absl::Now();
  BorrowedMemory memory_;
  std::shared_ptr<UnaryCall> call_;
  uint64_t request_bytes_ = 0;
  UnaryCall::Outcome outcome_;
};

extern template class MultiplyCall<CheckedProduct>;
extern template class MultiplyCall<CheckedBatch>;

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_MULTIPLY_CALL_H_
