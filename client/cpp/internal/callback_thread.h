// The thread on which a Client's callbacks run.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_CALLBACK_THREAD_H_
#define GEMMD_CLIENT_CPP_INTERNAL_CALLBACK_THREAD_H_

#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace gemm::client {

// Runs tasks one after another. It starts with the first announcement: Clients whose calls block
// never have it. Thread-safe.
class CallbackThread {
 public:
  CallbackThread() = default;

  // Waits until every task that was announced has run. Not to be called by a task.
  ~CallbackThread();

  // A Post will come. Without it the destructor would not wait.
  void Announce();

  // Quick, and calls nobody: gRPC's threads may do it wherever they are.
  void Post(absl::AnyInvocable<void()> task);

 private:
  void Run();
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !tasks_.empty() || (stopping_ && announced_ == 0);
  }

  absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int announced_ ABSL_GUARDED_BY(mutex_) = 0;  // and not yet posted
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // set once, when started_ becomes true
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_CALLBACK_THREAD_H_
