#include "client/cpp/internal/callback_thread.h"

#include <utility>

namespace gemm::client {

CallbackThread::~CallbackThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (!started_) return;
  }
  thread_.join();
}

void CallbackThread::Announce() {
  absl::MutexLock lock(&mutex_);
  ++announced_;
  if (started_) return;
  started_ = true;
  thread_ = std::thread([this] { Run(); });
}

void CallbackThread::Post(absl::AnyInvocable<void()> task) {
  absl::MutexLock lock(&mutex_);
  --announced_;
  tasks_.push_back(std::move(task));
}

void CallbackThread::Run() {
  for (;;) {
    absl::AnyInvocable<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CallbackThread::HasNews));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace gemm::client
