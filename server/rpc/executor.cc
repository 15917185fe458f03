#include "server/rpc/executor.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

namespace gemm {

Executor::Executor(int threads) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(Task task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
}

void Executor::RunInParts(int parts, absl::FunctionRef<void(int)> part) {
  // Shared, since a helper may come when all is done; it must then not touch `part`.
  struct Parts {
    explicit Parts(int parts_count) : count(parts_count), left(parts_count) {}
    const int count;
    std::atomic<int> next{0};
    std::atomic<int> left;
  };
  const auto shared = std::make_shared<Parts>(parts);
  const auto take_parts = [shared, part] {
    for (int i = shared->next++; i < shared->count; i = shared->next++) {
      part(i);
      if (--shared->left == 0) shared->left.notify_one();
    }
  };
  int helpers = 0;
  {
    std::lock_guard lock(mutex_);
    const int free = idle_ - static_cast<int>(tasks_.size());
    helpers = std::clamp(free, 0, parts - 1);
    for (int i = 0; i < helpers; ++i) tasks_.emplace_back(take_parts);
  }
  for (int i = 0; i < helpers; ++i) posted_.notify_one();
  take_parts();
  for (int left = shared->left; left > 0; left = shared->left) shared->left.wait(left);
}

void Executor::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    posted_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    std::move(task)();
    lock.lock();
  }
}

}  // namespace gemm
