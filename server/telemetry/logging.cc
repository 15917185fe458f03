#include "server/telemetry/logging.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/telemetry/stderr_sink.h"

namespace gemm {
namespace {

// A longer string is cut: no caller may fill the disk with one call.
constexpr size_t kStringLimit = 1024;

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Pure ASCII either way: C1 control characters and bidirectional overrides do harm as well.
std::string JsonString(std::string_view text) {
  return nlohmann::json(text.substr(0, kStringLimit))
      .dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

bool IsPlain(char c) {
  return absl::ascii_isalnum(c) || std::string_view("._:/+-@%,[]()*").find(c) != std::string::npos;
}

std::string TextString(std::string_view text) {
  if (!text.empty() && text.size() <= kStringLimit &&
      std::all_of(text.begin(), text.end(), IsPlain)) {
    return std::string(text);
  }
  return absl::StrCat("\"", absl::CHexEscape(std::string(text.substr(0, kStringLimit))), "\"");
}

struct ValueWriter {
  LogFormat format;

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(uint64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const {
    if (!std::isfinite(value)) return "null";  // JSON has no word for it
    return absl::StrFormat("%.9g", value);
  }
  std::string operator()(std::string_view value) const {
    return format == LogFormat::kJson ? JsonString(value) : TextString(value);
  }
};

struct LogState {
  LogOptions options;
  spdlog::logger logger{"gemmd", std::make_shared<StderrSink>([this](int64_t lines) {
                          return FormatLine(options.format, absl::Now(), LogLevel::kWarning,
                                            "log was not taken", {{"records_left_out", lines}});
                        })};
};

// Never destroyed: threads may log while the process ends.
LogState& State() {
  static LogState& state = *new LogState;
  return state;
}

// Lets through so many records a second and counts those that it holds back.
class WarningLimiter {
 public:
  // Whether one more may be written; if so, how many were held back since the last one.
  bool Admit(absl::Time now, int64_t* suppressed) {
    const std::lock_guard lock(mutex_);
    if (const int64_t second = absl::ToUnixSeconds(now); second != second_) {
      second_ = second;
      written_ = 0;
    }
    if (written_ == kCallWarningsPerSecond) {
      ++suppressed_;
      return false;
    }
    ++written_;
    *suppressed = std::exchange(suppressed_, 0);
    return true;
  }

 private:
  std::mutex mutex_;
  // State below is protected by mutex_.
  int64_t second_ = 0;
  int written_ = 0;
  int64_t suppressed_ = 0;
};

bool IsSlow(absl::Duration total) { return total >= State().options.slow_call; }

LogLevel LevelOf(int grpc_code, absl::Duration total) {
  return grpc_code != 0 || IsSlow(total) ? LogLevel::kWarning : LogLevel::kDebug;
}

}  // namespace

void InitLogging(const LogOptions& options) {
  State().options = options;
  State().logger.set_level(ToSpdlog(options.level));
}

bool LogEnabled(LogLevel level) { return State().logger.should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view message, absl::Span<const LogField> fields) {
  if (!LogEnabled(level)) return;
  State().logger.log(ToSpdlog(level),
                     FormatLine(State().options.format, absl::Now(), level, message, fields));
}

bool CallIsLogged(int grpc_code, absl::Duration total) {
  return LogEnabled(LevelOf(grpc_code, total));
}

void LogCall(const CallRecord& record) {
  const bool failed = record.grpc_code != 0;
  const bool slow = IsSlow(record.total);
  const LogLevel level = LevelOf(record.grpc_code, record.total);
  if (!LogEnabled(level)) return;

  static WarningLimiter& limiter = *new WarningLimiter;
  int64_t suppressed = 0;
  if (level == LogLevel::kWarning && !limiter.Admit(absl::Now(), &suppressed)) return;

  std::vector<LogField> fields = {{"method", record.method},
                                  {"code", GrpcCodeName(record.grpc_code)},
                                  {"peer", record.peer},
                                  {"total_seconds", absl::ToDoubleSeconds(record.total)}};
  if (!record.request_id.empty()) fields.emplace_back("request_id", record.request_id);
  if (!record.traceparent.empty()) fields.emplace_back("traceparent", record.traceparent);
  if (!record.matrix.empty()) fields.emplace_back("matrix", record.matrix);
  if (!record.dtype.empty()) {
    fields.emplace_back("m", record.m);
    fields.emplace_back("n", record.n);
    fields.emplace_back("k", record.k);
    fields.emplace_back("batch_count", record.batch_count);
    fields.emplace_back("dtype", record.dtype);
  }
  if (record.products > 0) {
    fields.emplace_back("products", record.products);
    fields.emplace_back("products_failed", record.products_failed);
  }
  if (!record.kernel.empty()) fields.emplace_back("kernel", record.kernel);
  std::array<std::string, kPhaseCount> phase_keys;
  for (int i = 0; i < kPhaseCount; ++i) {
    if (record.phases[i] == absl::ZeroDuration()) continue;
    phase_keys[i] = absl::StrCat(std::string(NameOf(static_cast<Phase>(i))), "_seconds");
    fields.emplace_back(phase_keys[i], absl::ToDoubleSeconds(record.phases[i]));
  }
  if (failed) fields.emplace_back("error", record.message);
  if (suppressed > 0) fields.emplace_back("records_left_out", suppressed);
  Log(level, failed ? "call failed" : slow ? "slow call" : "call", fields);
}

std::string FormatLine(LogFormat format, absl::Time time, LogLevel level, std::string_view message,
                       absl::Span<const LogField> fields) {
  const std::string when = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
  const std::string level_name(NameOf(level));
  const ValueWriter write{format};
  if (format == LogFormat::kJson) {
    std::string line = absl::StrCat("{\"time\":\"", when, "\",\"level\":\"", level_name,
                                    "\",\"message\":", JsonString(message));
    for (const LogField& field : fields) {
      absl::StrAppend(&line, ",", JsonString(field.key()), ":", std::visit(write, field.value()));
    }
    return line + "}";
  }
  std::string line = absl::StrCat(when, " ", level_name, " ",
                                  absl::CHexEscape(std::string(message.substr(0, kStringLimit))));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", TextString(field.key()), "=", std::visit(write, field.value()));
  }
  return line;
}

}  // namespace gemm
