// A file that takes its name when it is whole.

#ifndef GEMMD_CLIENT_CLI_TEMPORARY_FILE_H_
#define GEMMD_CLIENT_CLI_TEMPORARY_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gemm::cli {

// Lives beside its target under a hidden name; removed by the destructor unless committed, and on
// SIGINT, SIGTERM and SIGHUP once RemoveTemporaryFilesOnSignal was called. Movable.
class TemporaryFile {
 public:
  // Of that size, with its blocks reserved. Refuses a target that exists and is not a regular file.
  static absl::StatusOr<TemporaryFile> Create(const std::string& target, int64_t size_bytes);

  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  int fd() const { return fd_; }
  const std::string& target() const { return target_; }

  // Renames it to its target, which it replaces.
  absl::Status Commit();

 private:
  TemporaryFile() = default;

  std::string target_;
  std::string path_;  // empty once committed or moved from
  int fd_ = -1;
};

// For a program's main. A signal then removes the latest temporary file that is still open and ends
// the process as the signal would have.
void RemoveTemporaryFilesOnSignal();

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_TEMPORARY_FILE_H_
