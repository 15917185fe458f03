// Message bytes, counted before they are read.
//
// gRPC keeps an unread message on the caller's side of the flow-control window, so a call whose
// read has not started costs the server no more than that window. Admission says when a call may
// start.

#ifndef GEMMD_SERVER_RPC_ADMISSION_H_
#define GEMMD_SERVER_RPC_ADMISSION_H_

#include <cstdint>
#include <list>
#include <mutex>

#include "absl/functional/any_invocable.h"

namespace gemm {

// A budget of bytes with a bounded line in front of it, first come, first served. Thread-safe.
class Admission {
 public:
  enum class Verdict {
    kAdmitted,  // the bytes are counted; give them back with Release
    kWaiting,   // `admitted` will run, from a thread that releases, unless Cancel comes first
    kRefused,   // the line is full
  };

  // A place in line. Opaque to callers.
  using Ticket = uint64_t;

  Admission(uint64_t budget_bytes, int line_limit)
      : budget_bytes_(budget_bytes), line_limit_(line_limit) {}

  // `bytes` <= the budget. `*ticket` is set before `admitted` can run.
  Verdict Request(uint64_t bytes, Ticket* ticket, absl::AnyInvocable<void() &&> admitted);

  // Leaves the line. False when it is too late: `admitted` has run or is about to.
  bool Cancel(Ticket ticket);

  void Release(uint64_t bytes);

  uint64_t used_bytes() const;
  uint64_t budget_bytes() const { return budget_bytes_; }

 private:
  struct Waiter {
    Ticket ticket;
    uint64_t bytes;
    absl::AnyInvocable<void() &&> admitted;
  };

  const uint64_t budget_bytes_;
  const int line_limit_;

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::list<Waiter> line_;
  uint64_t used_bytes_ = 0;
  Ticket next_ticket_ = 1;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_ADMISSION_H_
