#include "client/cli/temporary_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemm::cli {
namespace {

// What the signal handler removes: a handler may not allocate or lock, so the path is kept here.
char signal_path[4096];
std::atomic<bool> signal_path_set = false;

void OnSignal(int signal) {
  if (signal_path_set) unlink(signal_path);
  raise(signal);  // SA_RESETHAND has restored the default action
}

void SetSignalPath(const std::string& path) {
  signal_path_set = false;
  if (path.empty() || path.size() >= sizeof signal_path) return;
  std::memcpy(signal_path, path.c_str(), path.size() + 1);
  signal_path_set = true;
}

absl::Status Fault(const std::string& target, const char* what, int error) {
  return absl::UnknownError(
      absl::StrCat(target, ": cannot be written: ", what, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<TemporaryFile> TemporaryFile::Create(const std::string& target, int64_t size_bytes) {
  struct stat info;
  if (lstat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(target, ": cannot be written: it exists and is not a regular file"));
  }
  const size_t slash = target.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  TemporaryFile file;
  file.target_ = target;
  const std::string path =
      absl::StrCat(target.substr(0, name), ".", target.substr(name), ".", getpid(), ".tmp");
  file.fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return Fault(target, path.c_str(), errno);
  file.path_ = path;
  SetSignalPath(path);
  if (const int error = posix_fallocate(file.fd_, 0, size_bytes); error != 0) {
    return Fault(target, absl::StrCat(size_bytes, " bytes").c_str(), error);
  }
  return file;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : target_(std::move(other.target_)),
      path_(std::exchange(other.path_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) close(fd_);
  if (path_.empty()) return;
  unlink(path_.c_str());
  SetSignalPath({});
}

absl::Status TemporaryFile::Commit() {
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0) return Fault(target_, "close", errno);
  if (rename(path_.c_str(), target_.c_str()) != 0) return Fault(target_, "rename", errno);
  path_.clear();
  SetSignalPath({});
  return absl::OkStatus();
}

void RemoveTemporaryFilesOnSignal() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

}  // namespace gemm::cli
