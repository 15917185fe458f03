// The threads that take gRPC's events: one for each of several queues, among which gRPC shares out
// the connections.
//
// A queue's thread finds what happens on its own connections and handles it to the end, so that it
// wakes nobody. Threads that wait in one queue cost each event wake-ups of others of them: gRPC
// (1.51) makes the next thread its poller before it handles what the last one found, and wakes one
// more for each operation that ends at once.

#ifndef GEMMD_SERVER_RPC_POLLERS_H_
#define GEMMD_SERVER_RPC_POLLERS_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace gemm {

// A tag of a queue: what is to be done when it comes out.
class Event {
 public:
  virtual void Happen(bool ok) = 0;

 protected:
  ~Event() = default;
};

class Pollers {
 public:
  // Every tag of `queues` is an Event. When a queue's thread has been stuck in one for 100 to 200
  // ms, one of `spare_threads` serves the queue: as many as may be stuck for long.
  Pollers(const std::vector<grpc::CompletionQueue*>& queues, int spare_threads);
  ~Pollers();  // the queues have been shut down

  Pollers(const Pollers&) = delete;
  Pollers& operator=(const Pollers&) = delete;

  // Spare threads that serve a queue now.
  int helping() const { return helping_; }

 private:
  struct alignas(64) Queue {
    explicit Queue(grpc::CompletionQueue* queue) : events(queue) {}

    grpc::CompletionQueue* const events;
    std::atomic<int> threads{1};       // that serve it
    std::atomic<int> in_events{0};     // of them
    std::atomic<uint64_t> handled{0};  // events

    // Used by Watch alone.
    bool was_busy = false;
    uint64_t had_handled = 0;
  };

  static void Handle(Queue& queue, void* tag, bool ok);
  static void Serve(Queue& queue);  // until it has been shut down
  static void Help(Queue& queue);   // or until another thread waits for its events again
  static bool IsStuck(Queue& queue);
  void HelpWhoIsStuck();  // what a spare thread does
  void Watch();

  std::deque<Queue> queues_;
  std::atomic<int> helping_{0};

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable stop_;
  std::condition_variable help_wanted_;
  std::vector<Queue*> stuck_;  // that a spare thread is to serve
  int spare_ = 0;              // threads that wait for help_wanted_
  bool stopping_ = false;

  std::vector<std::thread> servers_;
  std::vector<std::thread> helpers_;
  std::thread watcher_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_POLLERS_H_
