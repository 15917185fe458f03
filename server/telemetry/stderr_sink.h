// How the log's lines come to standard error.

#ifndef GEMMD_SERVER_TELEMETRY_STDERR_SINK_H_
#define GEMMD_SERVER_TELEMETRY_STDERR_SINK_H_

#include <spdlog/sinks/base_sink.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace gemm {

// Leaves lines out where nobody takes them, of a full pipe or disk: a log must not hold up who
// writes it, except that an error waits a moment. The next line that goes out again has one before
// it that says how many are missing.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // `missing` writes that line, without the newline.
  explicit StderrSink(std::function<std::string(int64_t lines)> missing)
      : missing_(std::move(missing)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& record) override;
  void flush_() override {}

 private:
  // False: it could not be written, or not to its end.
  bool Write(std::string_view line, bool important);
  bool WaitForRoom(bool important);

  const std::function<std::string(int64_t lines)> missing_;
  // State below is protected by the lock of base_sink.
  int64_t left_out_ = 0;
  bool cut_ = false;  // the last line has no end
  std::chrono::steady_clock::time_point period_end_{};
  std::chrono::steady_clock::duration patience_{};  // left in the period
};

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_STDERR_SINK_H_
