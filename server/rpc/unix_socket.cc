#include "server/rpc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gemm {
namespace {

// 0, or the error of connecting to it.
int TryToConnect(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = result == 0 ? 0 : errno;
  close(fd);
  return error;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status ClearUnixSocketPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a socket's path has at most ", sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

  const std::string folder = FolderOf(path);
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("its folder: ", std::strerror(errno)));
  }
  struct stat there = {};
  if (lstat(path.c_str(), &there) != 0) {
    return errno == ENOENT ? absl::OkStatus() : absl::FailedPreconditionError(std::strerror(errno));
  }
  if (!S_ISSOCK(there.st_mode))
    return absl::FailedPreconditionError("a file that is no socket is there");
  const int error = TryToConnect(address);
  // A full backlog says EAGAIN.
  if (error == 0 || error == EAGAIN)
    return absl::FailedPreconditionError("a server listens there already");
  if (error != ECONNREFUSED) return absl::FailedPreconditionError(std::strerror(error));
  if (unlink(path.c_str()) != 0) return absl::FailedPreconditionError(std::strerror(errno));
  return absl::OkStatus();
}

PrivateSocketFiles::PrivateSocketFiles() : mask_before_(umask(0117)) {}
PrivateSocketFiles::~PrivateSocketFiles() { umask(mask_before_); }

}  // namespace gemm
