// How far a transfer is, on stderr.

#ifndef GEMMD_CLIENT_CLI_PROGRESS_H_
#define GEMMD_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "client/cli/tcp_traffic.h"

namespace gemm::cli {

// The life of one transfer, in words. Not thread-safe.
class TransferProgress {
 public:
  // activity: what is done, where there is no telling how far it is: "multiplying".
  TransferProgress(std::string activity, uint64_t request_bytes, uint64_t reply_bytes)
      : activity_(std::move(activity)), request_bytes_(request_bytes), reply_bytes_(reply_bytes) {}

  // "[######..............] sent 1.20 of 4.00 GiB (30%), 850.00 MiB/s". The rate is that since the
  // call before.
  std::string Describe(absl::Duration elapsed, const std::optional<TcpTraffic>& traffic);

 private:
  const std::string activity_;
  const uint64_t request_bytes_;
  const uint64_t reply_bytes_;
  absl::Duration last_elapsed_;
  TcpTraffic last_;
};

// A line that is written over and over on a terminal, and gone in the end; a line each elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine();

  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const std::string& text);

 private:
  const bool enabled_;
  const bool terminal_;
  bool shown_ = false;
};

// Does `work` on a thread of its own, and shows meanwhile how far the process's connections are,
// unless it is over within a second.
void WithProgress(bool enabled, TransferProgress progress, absl::FunctionRef<void()> work);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_PROGRESS_H_
