#include "server/options.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/limits.h"
#include "server/host_port.h"
#include "server/option_kinds.h"

namespace gemm {
namespace {

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr char kEnvironmentPrefix[] = "GEMMD_";

constexpr char kFooter[] = R"(
Sizes are written 64MiB, durations 200us. Each flag can also be set by an environment variable,
--message-limit by GEMMD_MESSAGE_LIMIT, or in the file of --config by its name (message-limit =
"64MiB"). A flag wins over the environment, which wins over the file.

Exit status: 0 drained after SIGTERM or SIGINT; 1 start-up failed (port in use, no usable device);
2 wrong options; 3 the last device was lost, start again; 128 + N stopped at once by a second
signal N.)";

// The flags of gemmd, bound to the fields of an Options.
class Flags {
 public:
  explicit Flags(Options& options);

  CLI::App& app() { return app_; }
  std::vector<std::pair<std::string, std::string>> Changed() const;

  bool IsSwitch(const std::string& flag) const { return switches_.contains(flag); }

 private:
  template <typename T>
  void Add(const std::string& flag, T& field, Kind<T> kind, const std::string& help);
  void AddSwitch(const std::string& flag, bool& field, const std::string& help);

  CLI::App app_{"Multiplies matrices on NVIDIA GPUs, as a gRPC service.", "gemmd"};
  std::string group_;
  std::set<std::string> switches_;
  struct Entry {
    std::string flag;
    std::string default_text;
    std::function<std::string()> text;
  };
  std::vector<Entry> entries_;
};

Flags::Flags(Options& options) {
  app_.footer(kFooter);
  app_.set_version_flag("--version", std::string(), "Print the version and exit");
  app_.set_config("--config", "", "File of options, TOML or INI")->type_name("FILE");
  app_.allow_config_extras(CLI::config_extras_mode::error);

  group_ = "What the server does";
  Add("--listen", options.listen, AddressOrNone(),
      "Address of gRPC; port 0 picks a free one, empty means only --unix-listen");
  Add("--unix-listen", options.unix_listen, SocketPath(),
      "UNIX socket of gRPC, for callers on this machine: they write unix:PATH");
  AddSwitch("--insecure", options.insecure,
            "Listen where other machines can reach it, without encryption or authentication");
  Add("--metrics-listen", options.metrics_listen, AddressOrNone(),
      "Address of the Prometheus page /metrics; port 0 picks a free one, empty means none");
  Add("--device", options.device,
      OneOf<DeviceChoice>({{"auto", DeviceChoice::kAuto},
                           {"cuda", DeviceChoice::kCuda},
                           {"cpu", DeviceChoice::kCpu}}),
      "Where to compute; auto takes the CPU only where there is no NVIDIA device at all");
  Add("--force-kernel", options.force_kernel, Text(),
      "Full name of the only kernel to use, for measurements");
  Add("--drain-window", options.drain_window, Duration(absl::Hours(1)),
      "On SIGTERM, keep taking calls for so long while health says NOT_SERVING");
  Add("--drain-timeout", options.drain_timeout, Duration(absl::Hours(24)),
      "After that, cancel calls that are still running when so long has passed");
  AddSwitch("--reflection", options.reflection, "Serve gRPC reflection");
  Add("--log-level", options.log_level,
      OneOf<LogLevel>({{"debug", LogLevel::kDebug},
                       {"info", LogLevel::kInfo},
                       {"warning", LogLevel::kWarning},
                       {"error", LogLevel::kError}}),
      "Least important records to write; debug has one for each call");
  Add("--log-format", options.log_format,
      OneOf<LogFormat>({{"text", LogFormat::kText}, {"json", LogFormat::kJson}}),
      "Format of the log on standard error");
  Add("--slow-call", options.slow_call, Duration(absl::Hours(24)),
      "Log calls that take at least so long as warnings");

  group_ = "How much it may take";
  Add("--message-limit", options.message_limit_bytes, Size(kKiB, kMaxMessageBytes),
      "Largest request, and largest reply");
  Add("--admission-budget", options.admission_budget_bytes, Size(kKiB),
      "Bytes of requests under way at once; more wait unread");
  Add("--admission-line", options.admission_line, Count<int>(0, 1'000'000),
      "Calls that may wait for admission; more are refused");
  Add("--receive-timeout", options.receive_timeout,
      Duration(absl::Hours(24), absl::Milliseconds(100)),
      "Give up requests that take longer to arrive than so long and their bytes at 10 MB/s");
  Add("--host-memory", options.host_memory_bytes, Size(kMiB),
      "Host memory for operands and results, page-locked for a GPU");
  Add("--device-memory", options.device_memory, Number(0.01, 0.95, "0.25"),
      "Part of each GPU's memory that products under way may have");
  Add("--matrix-memory", options.matrix_memory_bytes, Size(0),
      "Memory of each device for matrices that stay on the server; 0: 0.6 of a GPU's, 4GiB of the "
      "CPU's");
  Add("--matrix-quota", options.matrix_quota_bytes, Size(0),
      "What one caller may hold of that, over all devices; 0: all");
  Add("--matrix-count", options.matrix_count, Count<uint64_t>(0, 10'000'000),
      "Matrices that one caller may have");
  Add("--matrix-ttl", options.matrix_ttl, Duration(absl::Hours(24 * 365), absl::Milliseconds(1)),
      "Keep a matrix that nobody uses for so long, if its caller does not say");
  Add("--matrix-ttl-limit", options.matrix_ttl_limit,
      Duration(absl::Hours(24 * 365), absl::Milliseconds(1)),
      "The longest that a caller may ask for");
  Add("--queue-problems", options.queue_problems, Count<uint64_t>(1, 1'000'000),
      "Products that may wait for a device; more are refused");
  Add("--queue-bytes", options.queue_bytes, Size(kKiB), "Host memory that those may hold");
  Add("--queue-flops", options.queue_flops, Number(1, 1e18),
      "Floating-point operations that those may ask for");
  Add("--executor-threads", options.executor_threads, Count<int>(0, 1024),
      "Threads for large requests and for rows of matrices; 0: one for each two cores, at least 2");
}

template <typename T>
void Flags::Add(const std::string& flag, T& field, Kind<T> kind, const std::string& help) {
  const std::string default_text = kind.format(field);
  const auto parse = kind.parse;
  const auto check = [parse](const std::string& text) {
    return std::string(parse(text).status().message());
  };
  app_.add_option_function<std::string>(
          flag, [&field, parse](const std::string& text) { field = *parse(text); }, help)
      ->check(CLI::Validator(check, ""))
      ->type_name(kind.type)
      ->default_str(default_text)
      ->group(group_);
  entries_.push_back(
      {flag, default_text, [&field, format = kind.format] { return format(field); }});
}

void Flags::AddSwitch(const std::string& flag, bool& field, const std::string& help) {
  app_.add_flag(flag, field, help)->group(group_);
  switches_.insert(flag);
  entries_.push_back({flag, "false", [&field] { return field ? "true" : "false"; }});
}

std::vector<std::pair<std::string, std::string>> Flags::Changed() const {
  std::vector<std::pair<std::string, std::string>> changed;
  for (const Entry& entry : entries_) {
    if (std::string text = entry.text(); text != entry.default_text) {
      changed.emplace_back(entry.flag.substr(2), std::move(text));
    }
  }
  return changed;
}

std::string VariableOf(const std::string& flag) {
  return kEnvironmentPrefix +
         absl::AsciiStrToUpper(absl::StrReplaceAll(flag.substr(2), {{"-", "_"}}));
}

// Variables of our prefix that are none of the server's: the client's, the build's, and what
// Kubernetes sets in every pod where a Service is called gemmd.
bool IsForeign(const std::string& variable) {
  static const std::set<std::string> foreign = {
      "GEMMD_ADDRESS", "GEMMD_TOKEN_FILE", "GEMMD_CA_FILE",
      "GEMMD_VERSION", "GEMMD_COMMIT",     "GEMMD_CUDA_ARCHITECTURES",
      "GEMMD_CUDA",    "GEMMD_SANITIZE",   "GEMMD_TESTS",
      "GEMMD_CCACHE",  "GEMMD_PORT"};
  return foreign.contains(variable) || absl::StartsWith(variable, "GEMMD_PORT_") ||
         absl::StartsWith(variable, "GEMMD_SERVICE_");
}

// Command line and environment in one list for CLI11, whose own support for variables would let
// the file win over them.
class Arguments {
 public:
  Arguments(int argc, const char* const* argv, const Flags& flags);

  absl::Status AddEnvironment(const char* const* environment, Flags& flags,
                              std::vector<std::string>& warnings);

  std::vector<std::string> Reversed() const { return {list_.rbegin(), list_.rend()}; }

  // What the operator wrote: the flag, the variable, or the key and the file.
  std::string SourceOf(const std::string& flag, const std::string& config_file) const;

 private:
  std::vector<std::string> list_;
  std::set<std::string> on_command_line_;
  std::set<std::string> in_environment_;
};

Arguments::Arguments(int argc, const char* const* argv, const Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string flag = argument.substr(0, argument.find('='));
    if (absl::StartsWith(flag, "--")) on_command_line_.insert(flag);
    // CLI11 would take the next argument for the value.
    if (absl::EndsWith(argument, "=") && !flags.IsSwitch(flag)) {
      list_.push_back(flag);
      list_.emplace_back();
    } else {
      list_.push_back(argument);
    }
  }
}

absl::Status Arguments::AddEnvironment(const char* const* environment, Flags& flags,
                                       std::vector<std::string>& warnings) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string entry = *environment;
    const size_t equals = entry.find('=');
    if (!absl::StartsWith(entry, kEnvironmentPrefix) || equals == std::string::npos) continue;
    const std::string variable = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    if (IsForeign(variable)) continue;

    const std::string flag =
        "--" + absl::AsciiStrToLower(absl::StrReplaceAll(
                   variable.substr(sizeof(kEnvironmentPrefix) - 1), {{"_", "-"}}));
    const bool known = flag != "--help" && VariableOf(flag) == variable &&
                       flags.app().get_option_no_throw(flag) != nullptr;
    if (!known) {
      warnings.push_back(absl::StrCat(variable, " is not an option of gemmd and has no effect"));
      continue;
    }
    if (on_command_line_.contains(flag)) continue;
    in_environment_.insert(flag);
    if (flags.IsSwitch(flag)) {
      if (value.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(variable, ": must be true or false"));
      }
      list_.insert(list_.begin(), absl::StrCat(flag, "=", value));
    } else {
      list_.insert(list_.begin(), {flag, value});
    }
  }
  return absl::OkStatus();
}

std::string Arguments::SourceOf(const std::string& flag, const std::string& config_file) const {
  if (on_command_line_.contains(flag)) return flag;
  if (in_environment_.contains(flag)) return VariableOf(flag);
  return absl::StrCat(config_file, ": ", flag.substr(2));
}

// CLI11's text, with the option named as the operator wrote it, in one line.
absl::Status ToStatus(const CLI::ParseError& error, CLI::App& app, const Arguments& arguments) {
  constexpr char kUnknownKey[] = "INI was not able to parse ";
  constexpr char kNotABool[] = "Could not convert: ";  // the rest: "--insecure = maybe"
  const std::vector<std::string>& config = app.get_config_ptr()->results();
  const std::string config_file = config.empty() ? "" : config.front();
  std::string text = error.what();
  if (absl::StartsWith(text, kUnknownKey)) {
    text = absl::StrCat(config_file, ": ", text.substr(sizeof(kUnknownKey) - 1),
                        " is not an option of gemmd");
  } else if (absl::StartsWith(text, kNotABool)) {
    const std::string flag =
        text.substr(sizeof(kNotABool) - 1, text.find(" =") - sizeof(kNotABool) + 1);
    text = absl::StrCat(arguments.SourceOf(flag, config_file), ": must be true or false");
  } else if (error.get_name() == "FileError") {
    text = absl::StrCat(arguments.SourceOf("--config", ""), ": ", text);
  } else if (const size_t end = text.find(':');
             absl::StartsWith(text, "--") && end != std::string::npos) {
    const std::string flag = text.substr(0, end);
    const std::string source = arguments.SourceOf(flag, config_file);
    text = error.get_name() == "ArgumentMismatch" && absl::StrContains(text, "received")
               ? absl::StrCat(source, ": is given more than once")
               : absl::StrCat(source, text.substr(end));
  }
  return absl::InvalidArgumentError(absl::StrReplaceAll(text, {{"\n", " "}}));
}

absl::Status CheckAddresses(const Options& options) {
  if (options.listen.empty()) {
    if (!options.unix_listen.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--listen: is empty, and so is --unix-listen");
  }
  const HostPort grpc = *ParseHostPort(options.listen);
  if (!options.insecure && !IsLoopback(grpc.host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen: ", options.listen,
        " can be reached from other machines, and this version has neither TLS nor "
        "authentication: add --insecure if every peer is trusted, or listen on 127.0.0.1"));
  }
  if (!options.metrics_listen.empty() && grpc.port != 0) {
    const HostPort metrics = *ParseHostPort(options.metrics_listen);
    if (metrics.port == grpc.port && metrics.host == grpc.host) {
      return absl::InvalidArgumentError(
          absl::StrCat("--metrics-listen and --listen are both ", options.listen));
    }
  }
  return absl::OkStatus();
}

// Limits that two options set on each other.
absl::Status CheckTogether(const Options& options) {
  absl::Status status = CheckAddresses(options);
  if (!status.ok()) return status;
  if (options.admission_budget_bytes < options.message_limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--admission-budget (", FormatSize(options.admission_budget_bytes),
        ") must be at least --message-limit (", FormatSize(options.message_limit_bytes), ")"));
  }
  if (options.host_memory_bytes < 2 * options.message_limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--host-memory (", FormatSize(options.host_memory_bytes),
                     ") must be at least twice --message-limit (",
                     FormatSize(options.message_limit_bytes), "), for a request and its reply"));
  }
  if (options.matrix_ttl_limit < options.matrix_ttl) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--matrix-ttl-limit (", absl::FormatDuration(options.matrix_ttl_limit),
        ") must be at least --matrix-ttl (", absl::FormatDuration(options.matrix_ttl), ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedOptions> ParseOptions(int argc, const char* const* argv,
                                           const char* const* environment) {
  ParsedOptions parsed;
  Flags flags(parsed.options);
  Arguments arguments(argc, argv, flags);
  absl::Status status = arguments.AddEnvironment(environment, flags, parsed.warnings);
  if (!status.ok()) return status;
  try {
    flags.app().parse(arguments.Reversed());
  } catch (const CLI::CallForHelp&) {
    parsed.outcome = ParsedOptions::Outcome::kHelp;
    parsed.help = flags.app().help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.outcome = ParsedOptions::Outcome::kVersion;
    return parsed;
  } catch (const CLI::ParseError& error) {
    return ToStatus(error, flags.app(), arguments);
  }
  status = CheckTogether(parsed.options);
  if (!status.ok()) return status;
  parsed.changed = flags.Changed();
  return parsed;
}

}  // namespace gemm
