// A connection of `gemmctl perf`, and those who call over it.

#ifndef GEMMD_CLIENT_CLI_PERF_LOAD_CHANNEL_H_
#define GEMMD_CLIENT_CLI_PERF_LOAD_CHANNEL_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/perf/random.h"
#include "client/cli/perf/tally.h"
#include "client/cli/perf/workload.h"
#include "gemmd/client.h"

namespace gemm::cli {

using LoadClock = std::chrono::steady_clock;
using LoadTime = LoadClock::time_point;

// How often those who wait look whether they should stop.
inline constexpr auto kGlance = std::chrono::milliseconds(50);

// A caller of a closed loop is a thread that waits for its call; those of an open one are slots for
// calls that end on the client's thread.
class LoadChannel {
 public:
  // batch: products of a MultiplyBatch call; 0 is one product a Multiply call.
  LoadChannel(Client client, const Workload& workload, int batch)
      : workload_(workload),
        batch_(batch),
        products_(std::max(batch, 1)),
        client_(std::make_unique<Client>(std::move(client))) {}

  // A run: first one of these, then Cancel any number of times, then Finish when it is idle().
  void BeginClosed(int callers, LoadTime end, Random seeds);
  void BeginOpen(double rate, int outstanding, LoadTime start, LoadTime end, Random seeds);
  void Cancel();
  Tally Finish();

  bool idle() const {
    absl::MutexLock lock(&mutex_);
    return busy_ == 0;
  }
  int64_t answered() const { return answered_.load(std::memory_order_relaxed); }
  int64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  LoadTime last_end() const { return last_end_; }  // of a call, after Finish

  absl::Status CheckResults(int slots) const;

 private:
  // What a run has measured; a cache line of its own for each caller.
  struct alignas(64) Record {
    Tally tally;
    LoadTime last_end;
  };

  // Room for one call.
  struct Slot {
    std::unique_ptr<std::byte[]> d;  // room for the largest one, once for each product
    std::vector<size_t> shapes;      // of each product
    std::vector<bool> right;         // whether its D is there
    LoadTime due;
    LoadTime sent;

    absl::Mutex mutex;
    uint64_t calls ABSL_GUARDED_BY(mutex) = 0;
    PendingCall pending ABSL_GUARDED_BY(mutex);  // the last of them, in an open loop
  };

  void Reset(int slots, int busy, LoadTime end);
  void CallAgainAndAgain(Slot& slot, Random shapes, Record& record);
  void SendArrivals(double rate, LoadTime start, Random seeds);
  Slot* TakeSlot();
  void Prepare(Slot& slot, Random& shapes, LoadTime due);
  void Send(Slot& slot);
  PendingCall BeginCall(Slot& slot);
  AnyMultiplyArgs ArgsOf(const Slot& slot, int product) const {
    return workload_.Args(slot.shapes[product], product, ResultOf(slot, product));
  }
  std::vector<AnyMultiplyArgs> ArgsOf(const Slot& slot) const;
  std::byte* ResultOf(const Slot& slot, int product) const {
    return slot.d.get() + product * workload_.largest_d_bytes();
  }
  void OnAnswer(Slot& slot, const MultiplyReport& report, Tally& tally);
  void OnAnswer(Slot& slot, const MultiplyBatchReport& report, Tally& tally);
  template <typename Report>
  void OnDone(Slot& slot, const absl::StatusOr<Report>& report, Record& record);
  void FreeSlot(Slot& slot);

  const Workload& workload_;
  const int batch_;
  const int products_;  // of a call

  // Constant during a run.
  LoadTime end_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::thread> threads_;  // a closed loop's callers, or an open one's sender

  std::atomic<bool> stopping_ = false;
  LoadTime stopped_at_;  // written before stopping_
  std::atomic<int64_t> answered_ = 0;
  std::atomic<int64_t> failed_ = 0;

  // Of each caller; of an open loop one, which the client's callbacks write, one after another.
  std::vector<Record> records_;
  LoadTime last_end_;

  mutable absl::Mutex mutex_;
  absl::CondVar slot_freed_;
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;  // callers, or the sender and the calls under way
  int64_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);  // of an open loop

  std::unique_ptr<Client> client_;  // the last: its end waits for callbacks, which use the others
};

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PERF_LOAD_CHANNEL_H_
