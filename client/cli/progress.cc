#include "client/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cli/format.h"

namespace gemm::cli {
namespace {

// A reply's headers and report are below this; a result that is as small is not worth a line.
constexpr uint64_t kReplyBegunBytes = 16384;

constexpr uint64_t kBarCells = 20;

// On a terminal, where more often would be hard to read.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(500);

std::string Part(const char* verb, uint64_t done_bytes, uint64_t all_bytes, uint64_t since_bytes,
                 absl::Duration since) {
  const double seconds = std::max(absl::ToDoubleSeconds(since), 1e-3);
  const uint64_t done = std::min(done_bytes, all_bytes);  // headers and attempts before count too
  const uint64_t percent = all_bytes == 0 ? 100 : done * 100 / all_bytes;
  const uint64_t cells = percent * kBarCells / 100;
  return absl::StrFormat("[%s%s] %s %s of %s (%d%%), %s/s", std::string(cells, '#'),
                         std::string(kBarCells - cells, '.'), verb,
                         FormatBytes(static_cast<double>(done)),
                         FormatBytes(static_cast<double>(all_bytes)), percent,
                         FormatBytes(static_cast<double>(since_bytes) / seconds));
}

uint64_t Growth(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

}  // namespace

std::string TransferProgress::Describe(absl::Duration elapsed,
                                       const std::optional<TcpTraffic>& traffic) {
  const std::string time = FormatSeconds(elapsed);
  if (!traffic) return absl::StrCat(activity_, ", ", time);
  const absl::Duration since = elapsed - last_elapsed_;
  const uint64_t sent = Growth(last_.sent_bytes, traffic->sent_bytes);
  const uint64_t received = Growth(last_.received_bytes, traffic->received_bytes);
  last_elapsed_ = elapsed;
  last_ = *traffic;
  if (traffic->received_bytes > kReplyBegunBytes) {
    return Part("received", traffic->received_bytes, reply_bytes_, received, since);
  }
  if (traffic->sent_bytes < request_bytes_) {
    return Part("sent", traffic->sent_bytes, request_bytes_, sent, since);
  }
  return absl::StrCat("waiting for the server, ", time);
}

ProgressLine::ProgressLine(bool enabled)
    : enabled_(enabled), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_ && terminal_) absl::FPrintF(stderr, "\r\033[K");
}

void ProgressLine::Show(const std::string& text) {
  if (!enabled_) return;
  const std::string line = terminal_ ? absl::StrCat("\r", text, "\033[K") : text + "\n";
  std::fputs(line.c_str(), stderr);  // which has no buffer
  shown_ = true;
}

void WithProgress(bool enabled, TransferProgress progress, absl::FunctionRef<void()> work) {
  if (!enabled) return work();
  absl::Notification over;
  std::thread worker([&] {
    work();
    over.Notify();
  });
  const absl::Time start = absl::Now();
  ProgressLine line(enabled);
  absl::Duration next = 2 * kProgressInterval;  // what is over by then needs none
  while (!over.WaitForNotificationWithTimeout(next)) {
    line.Show(progress.Describe(absl::Now() - start, TcpTrafficNow()));
    next = kProgressInterval;
  }
  worker.join();
}

}  // namespace gemm::cli
