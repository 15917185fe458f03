// A call that one of the methods named Async has begun.

#ifndef GEMMD_CLIENT_CPP_GEMMD_PENDING_CALL_H_
#define GEMMD_CLIENT_CPP_GEMMD_PENDING_CALL_H_

#include <memory>
#include <utility>

namespace gemm {

namespace client {
class UnaryCall;
}

// For those who may want to cancel; others ignore it. Its death changes nothing, and it may outlive
// the call and the Client. Copyable and thread-safe.
class PendingCall {
 public:
  PendingCall() = default;  // of no call

  // Asks for an early end and returns at once. The callback then gets CANCELLED, unless the call
  // was over before. May be called from a callback.
  void Cancel() const;

 private:
  friend class Client;
  explicit PendingCall(std::shared_ptr<client::UnaryCall> call) : call_(std::move(call)) {}

  std::shared_ptr<client::UnaryCall> call_;
};

}  // namespace gemm

#endif  // GEMMD_CLIENT_CPP_GEMMD_PENDING_CALL_H_
