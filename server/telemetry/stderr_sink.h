// How the log's lines come to standard error.

#ifndef GEMMD_SERVER_TELEMETRY_STDERR_SINK_H_
#define GEMMD_SERVER_TELEMETRY_STDERR_SINK_H_

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace gemm {

// Leaves lines out where nobody takes them, of a full pipe or disk: a log must not hold up who
// writes it. The next line that goes out again has one before it that says how many are missing.
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
  bool Write(std::string_view line);

  const std::function<std::string(int64_t lines)> missing_;
  // State below is protected by the lock of base_sink.
  int64_t left_out_ = 0;
  bool stalled_ = false;  // the last time there was no room
  bool cut_ = false;      // the last line has no end
};

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_STDERR_SINK_H_
