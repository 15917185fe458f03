#include "server/telemetry/stderr_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace gemm {
namespace {

// For a reader that is about to read on; the first line after that waits, others do not.
constexpr int kPatienceMilliseconds = 100;

bool HasRoom(int patience_milliseconds) {
  pollfd stream = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&stream, 1, patience_milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

}  // namespace

void StderrSink::sink_it_(const spdlog::details::log_msg& record) {
  if (left_out_ > 0 && Write(missing_(left_out_))) left_out_ = 0;
  const bool written =
      left_out_ == 0 && Write(std::string_view(record.payload.data(), record.payload.size()));
  if (!written) ++left_out_;
}

bool StderrSink::Write(std::string_view line) {
  std::string text(cut_ ? 1 : 0, '\n');
  text.append(line).push_back('\n');
  // A pipe that has room takes PIPE_BUF bytes at once.
  for (std::string_view rest = text; !rest.empty();) {
    stalled_ = !HasRoom(stalled_ ? 0 : kPatienceMilliseconds);
    const ssize_t written =
        stalled_ ? -1 : write(STDERR_FILENO, rest.data(), std::min<size_t>(rest.size(), PIPE_BUF));
    if (written < 0 && !stalled_ && errno == EINTR) continue;
    if (written < 0) return false;
    rest.remove_prefix(static_cast<size_t>(written));
    cut_ = !rest.empty();
  }
  return true;
}

}  // namespace gemm
