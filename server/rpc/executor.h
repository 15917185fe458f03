// The threads that decode large requests and move rows of matrices, so that those who take gRPC's
// events are not kept from their other connections for long.

#ifndef GEMMD_SERVER_RPC_EXECUTOR_H_
#define GEMMD_SERVER_RPC_EXECUTOR_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace gemm {

// Thread-safe. Tasks run in the order in which they were posted, on any of the threads.
class Executor {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  explicit Executor(int threads);
  ~Executor();  // runs what was posted, then joins

  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(Task task);

  // Calls part(0) to part(parts - 1), each once, on this thread and on as many of the executor's as
  // have nothing to do just now; returns when all are done. Never waits for a busy thread, so it
  // may be called from a task.
  void RunInParts(int parts, absl::FunctionRef<void(int)> part);

 private:
  void Work();

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable posted_;
  std::deque<Task> tasks_;
  int idle_ = 0;  // threads that wait for a task
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_EXECUTOR_H_
