#include "server/telemetry/stderr_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace gemm {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For a reader that is about to read on: an error waits so long, and all other records of a period
// together. A reader that stands still, or is always behind, holds up a hundredth of the time.
constexpr milliseconds kPatience{100};
constexpr std::chrono::seconds kPeriod{10};

bool HasRoom(steady_clock::duration patience) {
  pollfd stream = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&stream, 1, static_cast<int>(duration_cast<milliseconds>(patience).count()));
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

}  // namespace

void StderrSink::sink_it_(const spdlog::details::log_msg& record) {
  const bool important = record.level >= spdlog::level::err;
  if (left_out_ > 0 && Write(missing_(left_out_), important)) left_out_ = 0;
  const bool written =
      left_out_ == 0 && Write({record.payload.data(), record.payload.size()}, important);
  if (!written) ++left_out_;
}

bool StderrSink::WaitForRoom(bool important) {
  if (HasRoom({})) return true;
  if (important) return HasRoom(kPatience);
  const auto start = steady_clock::now();
  if (start >= period_end_) {
    period_end_ = start + kPeriod;
    patience_ = kPatience;
  }
  const bool has_room = HasRoom(patience_);
  patience_ = std::max(patience_ - (steady_clock::now() - start), steady_clock::duration::zero());
  return has_room;
}

bool StderrSink::Write(std::string_view line, bool important) {
  std::string text(cut_ ? 1 : 0, '\n');
  text.append(line).push_back('\n');
  // A pipe that has room takes PIPE_BUF bytes at once.
  for (std::string_view rest = text; !rest.empty();) {
    if (!WaitForRoom(important)) return false;
    const ssize_t written =
        write(STDERR_FILENO, rest.data(), std::min<size_t>(rest.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    rest.remove_prefix(static_cast<size_t>(written));
    cut_ = !rest.empty();
  }
  return true;
}

}  // namespace gemm
