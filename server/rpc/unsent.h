// Bytes that the process's sockets still hold for their peers.

#ifndef GEMMD_SERVER_RPC_UNSENT_H_
#define GEMMD_SERVER_RPC_UNSENT_H_

#include "absl/time/time.h"

namespace gemm {

// Waits until the peers of every TCP socket of the process have acknowledged what was sent to them.
// gRPC calls a reply finished once the kernel has it; a socket that is closed while the peer's own
// frames lie unread in it is reset, and what was not sent yet is lost. False at the deadline.
bool WaitUntilSent(absl::Time deadline);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_UNSENT_H_
