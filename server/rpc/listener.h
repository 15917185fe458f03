// Takes connections and hands them to gRPC.
//
// gRPC's own listener (1.51) never takes another connection once it has failed to take one, as it
// does when the process has as many files open as it may (CVE-2023-4785): anybody who opens enough
// connections would have made the server deaf until its end.

#ifndef GEMMD_SERVER_RPC_LISTENER_H_
#define GEMMD_SERVER_RPC_LISTENER_H_

#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gemm {

class Listener {
 public:
  // Gets each connection, non-blocking, to own it.
  using Take = absl::AnyInvocable<void(int listening_fd, int fd)>;

  Listener() = default;
  ~Listener() { Stop(); }

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Before Start; who connects until then waits. FAILED_PRECONDITION when an address cannot be had.

  // `address` is host:port, where port 0 picks a free one; returns the port. 0.0.0.0 and [::] both
  // mean every address of the machine, of IPv4 and of IPv6. Of a name's addresses one is enough.
  absl::StatusOr<int> ListenOnTcp(const std::string& address);
  // Makes the file, for the process's user and group alone.
  absl::Status ListenOnUnix(const std::string& path);

  // Takes connections from now on, on a thread of its own. When that fails it tries again.
  void Start(Take take);
  // `take` is not called any more; the UNIX socket's file is removed.
  void Stop();

 private:
  void TakeConnections();

  std::vector<int> fds_;
  std::string unix_path_;
  struct stat unix_file_ = {};
  int stop_fd_ = -1;  // readable when it is to stop
  Take take_;
  std::thread thread_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_LISTENER_H_
