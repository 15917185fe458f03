// gemmd: options, signals and exit status around Server.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/tune_process.h"
#include "server/open_devices.h"
#include "server/options.h"
#include "server/rpc/transport.h"
#include "server/server.h"
#include "server/telemetry/logging.h"

namespace gemm {
namespace {

enum ExitStatus {
  kExitDrained = 0,
  kExitStartFailed = 1,
  kExitBadOptions = 2,
  kExitDeviceLost = 3
};

// Takes SIGTERM and SIGINT from its construction on. The first ends the process at once or, after
// OnStop, begins an orderly end; the second ends it at once. There is one, and it lives for ever.
// (Blocking the signals and waiting for them would not do: libraries start threads before main.)
class StopSignals {
 public:
  StopSignals() {
    if (pipe2(pipe_, O_CLOEXEC) != 0) return;  // then the signals keep their default effect
    std::thread([this] { Wait(); }).detach();
    struct sigaction action = {};
    action.sa_handler = &StopSignals::Handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
  }

  void OnStop(std::function<void()> stop) {
    const std::lock_guard lock(mutex_);
    stop_ = std::move(stop);
  }

 private:
  static void Handle(int signal) {
    if (signalled_.exchange(true)) _exit(128 + signal);
    const int saved_errno = errno;
    const auto byte = static_cast<char>(signal);
    [[maybe_unused]] const ssize_t written = write(pipe_[1], &byte, 1);  // the pipe is empty
    errno = saved_errno;
  }

  void Wait() {
    char signal = 0;
    while (read(pipe_[0], &signal, 1) != 1) continue;
    Log(LogLevel::kInfo, "stopping", {{"signal", sigabbrev_np(signal)}});
    const std::lock_guard lock(mutex_);
    if (stop_ == nullptr) _exit(kExitDrained);  // still starting: nothing is in flight
    stop_();
  }

  static inline int pipe_[2];
  static inline std::atomic<bool> signalled_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "for use in a signal handler");

  std::mutex mutex_;
  std::function<void()> stop_;  // protected by mutex_
};

// A standard stream that is closed would be the next file that is opened, and what is written to
// the stream go there. Runs before the initialisers of libraries, of which gRPC's opens one.
void OpenStandardStreams() {
  int file = open("/dev/null", O_RDWR);
  while (0 <= file && file <= STDERR_FILENO) file = open("/dev/null", O_RDWR);
  if (file > STDERR_FILENO) close(file);
}
using Initialiser = void (*)();
[[gnu::section(".preinit_array"), gnu::used]] const Initialiser kFirst = OpenStandardStreams;

ExitStatus StartFailed(const absl::Status& status) {
  Log(LogLevel::kError, std::string(status.message()));
  return absl::IsInvalidArgument(status) ? kExitBadOptions : kExitStartFailed;
}

int Main(int argc, char** argv) {
  TuneServerProcess();
  SetPolling();
  signal(SIGPIPE, SIG_IGN);  // whoever read the log may go away; that is no reason to die
  static StopSignals& signals = *new StopSignals;

  const absl::StatusOr<ParsedOptions> parsed = ParseOptions(argc, argv, environ);
  if (!parsed.ok()) {
    std::fprintf(stderr, "gemmd: %s (see gemmd --help)\n",
                 std::string(parsed.status().message()).c_str());
    return kExitBadOptions;
  }
  if (parsed->outcome == ParsedOptions::Outcome::kHelp) {
    std::fputs(parsed->help.c_str(), stdout);
    return kExitDrained;
  }
  if (parsed->outcome == ParsedOptions::Outcome::kVersion) {
    std::printf("gemmd %s (%s)\n", Version().data(), Commit().data());
    return kExitDrained;
  }

  const Options& options = parsed->options;
  InitLogging({options.log_level, options.log_format, options.slow_call});
  Log(LogLevel::kInfo, "gemmd starting",
      {{"version", Version()},
       {"commit", Commit()},
       {"options", absl::StrJoin(parsed->changed, " ", absl::PairFormatter("="))}});
  for (const std::string& warning : parsed->warnings) Log(LogLevel::kWarning, warning);
  if (options.insecure) {
    Log(LogLevel::kWarning, "serving without encryption or authentication (--insecure)");
  }

  auto devices = OpenDevices(options);
  if (!devices.ok()) return StartFailed(devices.status());
  const auto server = Server::Start(options, *std::move(devices));
  if (!server.ok()) return StartFailed(server.status());
  signals.OnStop([&server] { (*server)->RequestStop(); });
  if ((*server)->Run() == Server::End::kDeviceLost) _exit(kExitDeviceLost);
  return kExitDrained;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) { return gemm::Main(argc, argv); }
