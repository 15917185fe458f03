// Calls whose message is on its way, and until when it may be.
//
// gRPC tells nothing of a message until all of it is there, and what was admitted for it stays
// taken meanwhile, so a caller that stops half-way would hold its part of the budget for as long as
// it likes.

#ifndef GEMMD_SERVER_RPC_RECEIVING_H_
#define GEMMD_SERVER_RPC_RECEIVING_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gemm {

// Thread-safe. Looks twice a second, so a time is kept to about that.
class Receiving {
 public:
  // A message is given up with this status, on the thread of this class.
  using GiveUp = absl::AnyInvocable<void(absl::Status) &&>;
  using Ticket = uint64_t;  // opaque to callers

  // A message may take `timeout`, and its bytes at kSlowestBytesPerSecond.
  explicit Receiving(absl::Duration timeout);
  ~Receiving();  // gives nobody up

  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;

  static constexpr double kSlowestBytesPerSecond = 10e6;

  // A message of at most `bytes` is going to be asked for. It is not given up before Arm, which
  // says that it has been, and which may come after Remove.
  Ticket Add(uint64_t bytes, GiveUp give_up);
  void Arm(Ticket ticket);
  // The message is there, or never will be. False when it is too late: `give_up` has run or is
  // about to.
  bool Remove(Ticket ticket);

  // From now on messages may take no longer than `timeout`, counted from now for those under way;
  // whoever does is told that the server is going away.
  void Drain(absl::Duration timeout);

 private:
  struct Entry {
    uint64_t bytes;
    absl::Time end;
    bool armed;
    GiveUp give_up;
  };

  void Watch();
  absl::Time EndOf(uint64_t bytes) const;  // of one that starts now; requires mutex_

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable stop_;
  absl::Duration timeout_;
  bool draining_ = false;
  bool stopping_ = false;
  Ticket next_ticket_ = 1;
  std::map<Ticket, Entry> messages_;

  std::thread watcher_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_RECEIVING_H_
