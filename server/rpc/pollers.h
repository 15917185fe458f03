// The threads that take gRPC's events, as many at a time as calls keep busy.
//
// Every thread that waits in gRPC's queue costs each event a wake-up of another one: gRPC (1.51)
// makes the next thread its poller before it handles what the last one found, and wakes one more
// for each operation that ends at once. A wake-up is 45 to 75 us on virtual cores that went to
// sleep. So one thread serves one caller alone, and others join it as there is more to do.

#ifndef GEMMD_SERVER_RPC_POLLERS_H_
#define GEMMD_SERVER_RPC_POLLERS_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace gemm {

// A tag of the queue: what is to be done when it comes out.
class Event {
 public:
  virtual void Happen(bool ok) = 0;

 protected:
  ~Event() = default;
};

// Thread-safe.
class Pollers {
 public:
  // Every tag of `queue` is an Event. `most_threads` are at work at most, and of `spare_threads`
  // one more each time that all of them are stuck in events: as many as may be stuck for long.
  Pollers(grpc::CompletionQueue& queue, int most_threads, int spare_threads);
  ~Pollers();  // the queue has been shut down

  Pollers(const Pollers&) = delete;
  Pollers& operator=(const Pollers&) = delete;

  // From one of the threads, for each call that has come and when it goes. A call that only waits
  // for something to change, perhaps for days, may be taken to have gone.
  void CallCame(const std::string& peer);
  void CallWent() { --calls_; }

  int at_work() const { return at_work_; }

 private:
  void Work();
  bool WaitUntilWanted();  // false: there will be no more events
  bool FindsOthersWaiting(const std::string& peer);
  bool Leave();         // whether this thread was one too many
  void Join();          // one more, if there is one
  void LookForStall();  // requires mutex_

  grpc::CompletionQueue& queue_;
  const int most_threads_;

  std::atomic<int> calls_{0};
  std::atomic<int> at_work_{1};    // threads in the queue or in an event
  std::atomic<int> in_events_{0};  // of them
  std::atomic<uint64_t> events_{0};
  std::atomic<size_t> last_connection_{0};  // while one thread is at work
  std::atomic<int> others_waiting_{0};      // likewise: in a row
  std::atomic<int64_t> needed_at_ns_{0};    // when all of them were last of use

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable wanted_;
  std::condition_variable deputy_wanted_;
  int to_join_ = 1;
  int parked_ = 0;       // threads that wait for wanted_
  bool deputy_ = false;  // there is one that also looks for a stall
  bool over_ = false;
  uint64_t events_at_last_look_ = 0;

  std::vector<std::thread> threads_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_POLLERS_H_
