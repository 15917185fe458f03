// A call of raw bytes: its attempts, the waits between them and its end.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_UNARY_CALL_H_
#define GEMMD_CLIENT_CPP_INTERNAL_UNARY_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/internal/backoff.h"
#include "client/cpp/internal/connection.h"
#include "client/cpp/internal/polled_queue.h"
#include "gemmd/client.h"

namespace gemm::client {

// Keeps itself alive until it is over. Thread-safe.
//
//   Start -> attempt -> over
//               ^ \- UNAVAILABLE -> alarm -.
//               `--------------------------'
class UnaryCall : public std::enable_shared_from_this<UnaryCall> {
 public:
  struct Outcome {
    absl::StatusOr<grpc::ByteBuffer> reply;
    int attempts = 0;
  };
  using Done = absl::AnyInvocable<void(Outcome)>;

  // The connection must live until the call is over.
  UnaryCall(const Connection& connection, const ClientOptions& options, std::string method,
            const grpc::ByteBuffer& request);

  // Before Start: the call's steps are to be run by `queue`, whose thread starts it, instead of by
  // gRPC's threads. It must live until the call is over.
  void PollOn(PolledQueue& queue) { queue_ = &queue; }

  // `done` is called once, on a thread of gRPC's or on this one. The request and the attempts'
  // contexts are gone by then, so that memory lent to the request comes back soon.
  void Start(Done done);

  // The end is then near, with CANCELLED unless it was there already.
  void Cancel();

 private:
  void Attempt();
  void OnAttemptDone(const absl::Status& status);
  bool WaitForNextAttempt(absl::Duration wait);  // false once cancelled
  void Finish(absl::StatusOr<grpc::ByteBuffer> reply);

  const Connection& connection_;
  const std::string method_;
  const absl::Time start_;
  const absl::Time deadline_;
  PolledQueue* queue_ = nullptr;  // constant after Start

  // Of the attempt or the wait under way; one at a time, so they need no lock.
  Done done_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  Backoff backoff_;
  int attempts_ = 0;

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);  // of the attempt
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);            // of the wait
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_UNARY_CALL_H_
