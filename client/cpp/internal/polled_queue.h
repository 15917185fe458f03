// Events of gRPC's, taken by the thread that waits for them.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_POLLED_QUEUE_H_
#define GEMMD_CLIENT_CPP_INTERNAL_POLLED_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace gemm::client {

// The caller of a blocking call reads the connection itself: when a thread of gRPC's reads it and
// wakes the caller, that costs 70 us a call and a fifth of the speed at 16 MiB each way (16 virtual
// cores). For one thread.
class PolledQueue {
 public:
  // Does what has become due on the process's connections while nobody polled, such as noticing
  // that a peer is gone. Not when somebody waits, who has: all of a process's threads share one
  // epoll set, and to look there costs another one a wake-up.
  PolledQueue();
  ~PolledQueue();  // no step may be left

  PolledQueue(const PolledQueue&) = delete;
  PolledQueue& operator=(const PolledQueue&) = delete;

  // A tag for one event on queue(): `step` is run when that has come.
  void* Tag(absl::AnyInvocable<void()> step);
  grpc::CompletionQueue* queue() { return &queue_; }

  // Runs steps until `over`. While a step is left only a step may make it so; with none left other
  // threads may, too.
  void RunUntil(absl::FunctionRef<bool()> over);

  // Whether a thread of the process waits on some queue.
  static bool SomebodyWaits();

 private:
  grpc::CompletionQueue queue_;
  int steps_ = 0;  // that have not run
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_POLLED_QUEUE_H_
