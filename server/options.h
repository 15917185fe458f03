// What an operator can set, and how it is read from flags, the environment and a file.

#ifndef GEMMD_SERVER_OPTIONS_H_
#define GEMMD_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/telemetry/logging.h"

namespace gemm {

enum class DeviceChoice { kAuto, kCuda, kCpu };

// Each field is the flag of the same name (message_limit_bytes is --message-limit).
struct Options {
  // ---- What the server does ----

  // host:port of gRPC; port 0 picks a free one, which the log then tells; empty, where there is
  // `unix_listen`, means none. Default: this machine only. A name or address that other machines
  // can reach needs `insecure`.
  std::string listen = "127.0.0.1:50051";

  // Path of a UNIX socket for gRPC beside `listen`, or instead of it; callers write unix:PATH.
  // Default: none. The file is made with mode 0660, so that the folder, its user and its group say
  // who may call; it is removed at the end, and one that a server left behind which is gone is
  // replaced. At most 107 bytes, of letters, digits and -._~/+@=,: which need no escape there.
  std::string unix_listen;

  // Allows `listen` to be reachable from other machines although nothing is encrypted and nobody
  // has to prove who they are. Default: false. For a network where every peer is trusted.
  bool insecure = false;

  // host:port of the metrics page (HTTP, /metrics); port 0 picks a free one, empty means none. It
  // tells numbers only, so it may face the network of the monitoring without `insecure`.
  std::string metrics_listen = "127.0.0.1:9464";

  // Where products are computed. kAuto (default) takes the GPUs, and the CPU only on a machine
  // without any NVIDIA device: a GPU that is there but cannot be used is an error, since a CPU
  // would be thousands of times slower than expected and say nothing.
  DeviceChoice device = DeviceChoice::kAuto;

  // Full name of the only kernel to use, for measurements; products that it cannot run fail. Empty
  // (default): the kernel that fits each product.
  std::string force_kernel;

  // On SIGTERM, how long the server goes on taking calls after its health has turned NOT_SERVING,
  // so that load balancers see it first. Default 0; behind one, a little over its probe period.
  absl::Duration drain_window = absl::ZeroDuration();

  // After that, how long calls in flight may take to finish before they are cancelled. Default
  // 30 s. drain_window + drain_timeout must be shorter than what the supervisor grants.
  absl::Duration drain_timeout = absl::Seconds(30);

  // Serves gRPC reflection, which lets tools list and call methods without the .proto file.
  // Default: false, so as to tell strangers no more than needed.
  bool reflection = false;

  // Least important records to write: kDebug adds one for each successful call, which costs
  // throughput. Default kInfo.
  LogLevel log_level = LogLevel::kInfo;

  // kText (default) for people, kJson for log collectors. Either goes to standard error.
  LogFormat log_format = LogFormat::kText;

  // A call that takes at least this long is logged as a warning. Default 1 s; more where large
  // products or slow links are the rule.
  absl::Duration slow_call = absl::Seconds(1);

  // ---- How much it may take ----

  // Bytes of the largest request, and of the largest reply. Default 64 MiB. Larger lets larger
  // products through; each call may then hold as much of the budgets below. At most what gRPC can
  // count, 2^31 - 1.
  uint64_t message_limit_bytes = uint64_t{64} << 20;

  // Bytes of requests that may be under way at once, from their first byte to their product; more
  // wait in line with their messages unread. Default 1 GiB. Larger lets more calls overlap. At
  // least message_limit.
  uint64_t admission_budget_bytes = uint64_t{1} << 30;

  // Calls that may wait in that line; more are refused with UNAVAILABLE. Default 1024. Longer rides
  // out longer bursts; shorter tells callers sooner to go elsewhere. 0: nobody waits.
  int admission_line = 1024;

  // How long a request may take to arrive once the server reads it, in addition to its bytes at 10
  // MB/s; then it is given up with DEADLINE_EXCEEDED, and what was admitted for it serves others.
  // Default 60 s. Longer for callers behind links of less than about 1 MB/s; shorter frees sooner
  // what callers hold that stop half-way.
  absl::Duration receive_timeout = absl::Seconds(60);

  // Bytes of host memory for operands and results, page-locked for a GPU. Default 2 GiB. Larger
  // lets more products be in flight. At least twice message_limit.
  uint64_t host_memory_bytes = uint64_t{2} << 30;

  // Part of each GPU's memory that the products under way may have. Default 0.25. More lets larger
  // products run, and more of them beside each other. A product that needs more is refused; one
  // that does not fit for the moment waits. More than what is free at the start is an error.
  double device_memory = 0.25;

  // Bytes of each device's memory for matrices that stay on the server. Default 0: 0.6 of a GPU's
  // memory; of the CPU's 4 GiB, but never more than half. Together with what products under way may
  // have it has to fit.
  uint64_t matrix_memory_bytes = 0;

  // Bytes of that, over all devices, that one caller may hold. Default 0: all. Less keeps room for
  // others where many callers share the server.
  uint64_t matrix_quota_bytes = 0;

  // Matrices that one caller may have. Default 10000.
  uint64_t matrix_count = 10'000;

  // How long a matrix is kept that nobody uses, where its caller does not say, and the longest that
  // one may ask for. Defaults 1 h and 24 h. Shorter frees sooner what callers have forgotten.
  absl::Duration matrix_ttl = absl::Hours(1);
  absl::Duration matrix_ttl_limit = absl::Hours(24);

  // Products that may wait for a device, the bytes of host memory that they may hold meanwhile, and
  // their floating-point operations; more are refused with UNAVAILABLE. Defaults 4096, 1 GiB and
  // 2e15, which is a minute of a GPU that computes 33 TFLOP/s. Longer rides out longer bursts, at
  // the price of latency under overload.
  uint64_t queue_problems = 4096;
  uint64_t queue_bytes = uint64_t{1} << 30;
  double queue_flops = 2e15;

  // Threads that decode requests and send replies. Default 0: one for each two cores, at least 2.
  int executor_threads = 0;
};

struct ParsedOptions {
  enum class Outcome { kRun, kHelp, kVersion };

  Outcome outcome = Outcome::kRun;
  Options options;   // if kRun
  std::string help;  // the text, if kHelp
  // Things to tell the operator that stop nothing, such as a misspelt environment variable.
  std::vector<std::string> warnings;
  // Flag and value, as written, of what was set to something else than its default.
  std::vector<std::pair<std::string, std::string>> changed;
};

// Reads argv, then `environment` ("NAME=value", ends with null, as environ) for what argv leaves
// out, then the file of --config for what both leave out. INVALID_ARGUMENT says in one line which
// flag, variable or key is wrong and what it may be.
absl::StatusOr<ParsedOptions> ParseOptions(int argc, const char* const* argv,
                                           const char* const* environment);

}  // namespace gemm

#endif  // GEMMD_SERVER_OPTIONS_H_
