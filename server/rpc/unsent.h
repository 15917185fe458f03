// Bytes that the process's sockets still hold for their peers.

#ifndef GEMMD_SERVER_RPC_UNSENT_H_
#define GEMMD_SERVER_RPC_UNSENT_H_

#include <dirent.h>

#include <cstdint>

#include "absl/time/time.h"

namespace gemm {

// For one thread at a time.
class Unsent {
 public:
  // Holds the list of the process's files open from now on: later there may be no descriptor left
  // to open it with.
  Unsent();
  ~Unsent();

  Unsent(const Unsent&) = delete;
  Unsent& operator=(const Unsent&) = delete;

  // Waits until the peers of every socket of the process have taken what was sent to them: over TCP
  // their kernels have acknowledged it, over UNIX sockets they have read it. gRPC calls a reply
  // finished once the kernel has it; a socket that is closed while the peer's own frames lie unread
  // in it is reset, and what was not sent yet is lost. False at the deadline, a time of
  // SteadyNow, or when what is left is for peers on UNIX sockets who read nothing for 2 s.
  bool WaitForNone(absl::Time deadline);

 private:
  struct Bytes {
    int64_t unix_sockets = 0;
    int64_t others = 0;
  };
  Bytes Now();

  DIR* const files_;  // null where there is no /proc
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_UNSENT_H_
