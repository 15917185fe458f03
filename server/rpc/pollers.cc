#include "server/rpc/pollers.h"

#include <chrono>
#include <utility>

namespace gemm {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};

}  // namespace

Pollers::Pollers(const std::vector<grpc::CompletionQueue*>& queues, int spare_threads) {
  for (grpc::CompletionQueue* queue : queues) {
    servers_.emplace_back([this, &queue = queues_.emplace_back(queue)] { Serve(queue); });
  }
  for (int i = 0; i < spare_threads; ++i) helpers_.emplace_back([this] { HelpWhoIsStuck(); });
  watcher_ = std::thread([this] { Watch(); });
}

Pollers::~Pollers() {
  for (std::thread& server : servers_) server.join();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  help_wanted_.notify_all();
  watcher_.join();
  for (std::thread& helper : helpers_) helper.join();
}

void Pollers::Handle(Queue& queue, void* tag, bool ok) {
  ++queue.in_events;
  static_cast<Event*>(tag)->Happen(ok);
  --queue.in_events;
  ++queue.handled;
}

void Pollers::Serve(Queue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.events->Next(&tag, &ok)) Handle(queue, tag, ok);
}

void Pollers::Help(Queue& queue) {
  void* tag = nullptr;
  bool ok = false;
  for (;;) {
    switch (queue.events->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kLookEvery)) {
      case grpc::CompletionQueue::SHUTDOWN:
        return;
      case grpc::CompletionQueue::GOT_EVENT:
        Handle(queue, tag, ok);
        break;
      case grpc::CompletionQueue::TIMEOUT:
        break;
    }
    if (queue.in_events >= queue.threads - 1) continue;
    if (--queue.threads > queue.in_events) return;
    ++queue.threads;  // meanwhile the others have got events, perhaps to be stuck there
  }
}

void Pollers::HelpWhoIsStuck() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++spare_;
    help_wanted_.wait(lock, [this] { return !stuck_.empty() || stopping_; });
    --spare_;
    if (stopping_) return;
    Queue& queue = *stuck_.back();
    stuck_.pop_back();
    lock.unlock();
    ++helping_;
    Help(queue);
    --helping_;
    lock.lock();
  }
}

void Pollers::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kLookEvery, [this] { return stopping_; })) {
    for (Queue& queue : queues_) {
      if (!IsStuck(queue) || std::cmp_greater_equal(stuck_.size(), spare_)) continue;
      ++queue.threads;
      stuck_.push_back(&queue);
      help_wanted_.notify_one();
    }
  }
}

bool Pollers::IsStuck(Queue& queue) {
  const uint64_t handled = queue.handled;
  const bool busy = queue.in_events >= queue.threads;
  const bool stuck = busy && queue.was_busy && handled == queue.had_handled;
  queue.was_busy = busy;
  queue.had_handled = handled;
  return stuck;
}

}  // namespace gemm
