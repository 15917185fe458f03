// The file of a UNIX socket to listen on.

#ifndef GEMMD_SERVER_RPC_UNIX_SOCKET_H_
#define GEMMD_SERVER_RPC_UNIX_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace gemm {

// Makes way for a listener at `path`: removes a socket that a server left behind which is gone.
// FAILED_PRECONDITION, which says why in words, when a server listens there, when something else
// than a socket is there, when its folder cannot be written to, or when no socket can have such a
// long path.
absl::Status ClearUnixSocketPath(const std::string& path);

// While it lives, the sockets that the process makes are open to its user and group alone (0660).
// The mode has to be there when the file appears, for whoever can connect can call. Process-wide,
// so only for the start-up.
class PrivateSocketFiles {
 public:
  PrivateSocketFiles();
  ~PrivateSocketFiles();

  PrivateSocketFiles(const PrivateSocketFiles&) = delete;
  PrivateSocketFiles& operator=(const PrivateSocketFiles&) = delete;

 private:
  const mode_t mask_before_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_UNIX_SOCKET_H_
