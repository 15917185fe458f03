// Calls whose callers wait for them.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_BLOCKING_CALLS_H_
#define GEMMD_CLIENT_CPP_INTERNAL_BLOCKING_CALLS_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/internal/bulk_call.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/polled_queue.h"
#include "client/cpp/internal/unary_call.h"
#include "gemmd/client.h"

namespace gemm::client {

// A client's; the thread of each reads its connection itself. Thread-safe.
class BlockingCalls {
 public:
  explicit BlockingCalls(const ClientOptions& options) : options_(options) {}

  // Request is as for BulkCall.
  template <typename Request>
  absl::StatusOr<typename Request::Report> Call(const Connection& connection, Request request) {
    const auto call = BulkCall<Request>::Create(connection, options_, std::move(request));
    if (!call.ok()) return call.status();
    PolledQueue queue;
    const Membership membership(*this, *(*call)->unary_call());
    std::atomic<bool> over = false;
    (*call)->unary_call()->PollOn(queue);
    (*call)->Start([&over] { over = true; });
    queue.RunUntil([&over] { return over.load(); });
    return (*call)->Finish();
  }

  // A call of small protobuf messages.
  template <typename Reply>
  absl::StatusOr<Reply> CallMessage(const Connection& connection, const std::string& method,
                                    const google::protobuf::MessageLite& request) {
    const absl::StatusOr<std::string> bytes =
        CallText(connection, method, request.SerializeAsString());
    if (!bytes.ok()) return bytes.status();
    Reply reply;
    if (!reply.ParseFromString(*bytes)) return CannotParse(method);
    return reply;
  }

  // Ends those under way with CANCELLED.
  void Cancel();

  // How often that was done: what consists of several calls ends when it has been.
  int64_t cancels() const { return cancels_.load(); }

 private:
  // Of a call, while it is under way.
  class Membership {
   public:
    Membership(BlockingCalls& calls, UnaryCall& call);
    ~Membership();
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

   private:
    BlockingCalls& calls_;
    UnaryCall& call_;
  };

  absl::StatusOr<std::string> CallText(const Connection& connection, const std::string& method,
                                       const std::string& request);
  static absl::Status CannotParse(const std::string& method);

  const ClientOptions options_;
  std::atomic<int64_t> cancels_ = 0;
  absl::Mutex mutex_;
  std::unordered_set<UnaryCall*> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_BLOCKING_CALLS_H_
