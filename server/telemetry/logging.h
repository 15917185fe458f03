// The server's log: one line a record on standard error, as text for people or as JSON for
// machines. Every string in a record is escaped, whoever it came from, so that no caller can forge
// a line or reach a terminal.

#ifndef GEMMD_SERVER_TELEMETRY_LOGGING_H_
#define GEMMD_SERVER_TELEMETRY_LOGGING_H_

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/telemetry/metrics.h"

namespace gemm {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  // A call that takes at least this long is logged as a warning even when it succeeds.
  absl::Duration slow_call = absl::Seconds(1);
};

// Sets how records are written from now on. Until it is called the defaults hold. Not to be called
// while another thread logs.
void InitLogging(const LogOptions& options);

// One named value of a record; refers to the key and to string values, which must outlive the
// call to Log. Names carry units: "total_seconds".
class LogField {
 public:
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string_view>;

  LogField(std::string_view key, bool value) : key_(key), value_(value) {}
  LogField(std::string_view key, std::signed_integral auto value)
      : key_(key), value_(static_cast<int64_t>(value)) {}
  LogField(std::string_view key, std::unsigned_integral auto value)
      : key_(key), value_(static_cast<uint64_t>(value)) {}
  LogField(std::string_view key, double value) : key_(key), value_(value) {}
  LogField(std::string_view key, std::string_view value) : key_(key), value_(value) {}
  LogField(std::string_view key, const std::string& value)
      : key_(key), value_(std::string_view(value)) {}
  LogField(std::string_view key, const char* value) : key_(key), value_(std::string_view(value)) {}

  std::string_view key() const { return key_; }
  const Value& value() const { return value_; }

 private:
  std::string_view key_;
  Value value_;
};

// Thread-safe:
//   Log(LogLevel::kInfo, "gemmd listening", {{"grpc_address", address}});
void Log(LogLevel level, std::string_view message, absl::Span<const LogField> fields = {});
bool LogEnabled(LogLevel level);

using PhaseTimes = std::array<absl::Duration, kPhaseCount>;

// One finished call. Views need to last as long as the call to LogCall.
struct CallRecord {
  std::string_view method;            // "Multiply"
  std::string_view peer;              // as gRPC says it
  std::string_view request_id;        // the caller's; may be empty
  std::string_view traceparent = {};  // the caller's W3C trace context; may be empty
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch_count = 1;
  int64_t products = 0;  // of a MultiplyBatch, whose shapes are not logged; 0: another method
  int64_t products_failed = 0;
  std::string_view matrix;  // that it is about; empty: none, or not known yet
  std::string_view dtype;   // empty: the call had no valid product, and its shape is not logged
  std::string_view kernel;  // full name; empty when nothing ran
  PhaseTimes phases = {};   // of the product that took longest; zero: the call did not get there
  absl::Duration total;     // from the headers to the end
  int grpc_code = 0;
  std::string_view message;  // of the error
};

// Thread-safe. A call that failed or was slow is a warning, any other a debug record. Under a storm
// of failures it writes at most kCallWarningsPerSecond and says how many it left out.
void LogCall(const CallRecord& record);
inline constexpr int kCallWarningsPerSecond = 100;
// False where LogCall would write nothing: saves making the record.
bool CallIsLogged(int grpc_code, absl::Duration total);

// What Log writes, without the newline.
std::string FormatLine(LogFormat format, absl::Time time, LogLevel level, std::string_view message,
                       absl::Span<const LogField> fields);

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_LOGGING_H_
