// The threads that decode large requests and write replies, so that neither gRPC's own threads nor
// a device's worker is kept busy with copies and socket writes.

#ifndef GEMMD_SERVER_RPC_EXECUTOR_H_
#define GEMMD_SERVER_RPC_EXECUTOR_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

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

 private:
  void Work();

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable posted_;
  std::deque<Task> tasks_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_EXECUTOR_H_
