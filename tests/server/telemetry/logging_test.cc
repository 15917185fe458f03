#include "server/telemetry/logging.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/engine/clock.h"

namespace gemm {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr absl::Time kEpoch = absl::UnixEpoch();

// What callers may put into peer strings, request ids and, by way of errors, messages.
std::vector<std::string> HostileStrings() {
  std::vector<std::string> strings = {
      "",
      "\"",
      "\\",
      "\",\"level\":\"error",
      "line\nbreak\r\n",
      std::string("nul\0nul", 7),
      "\x1b[31mred\x1b[0m",
      "\x7f",
      std::string("\xc2\x9b") + "31m",           // C1 control sequence introducer
      std::string("\xe2\x80\xae") + "reversed",  // right-to-left override
      "\xff\xfe",                                // not UTF-8
      "\xc3",                                    // cut off
      "\xed\xa0\x80",                            // a surrogate
      "\xf0\x9f\x98\x80",                        // beyond the basic plane
      "{\"a\":1}",
      "a=b c=\"d\"",
      "%s%n{}{0}",
      std::string(100'000, 'x'),
      std::string(1023, 'x') + "\xe2\x82\xac",  // the limit falls into a character
  };
  for (int c = 0; c < 256; ++c) strings.emplace_back(3, static_cast<char>(c));
  return strings;
}

bool IsPrintableAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

TEST(FormatLineTest, JsonIsOneValidObjectWhateverTheStrings) {
  for (const std::string& hostile : HostileStrings()) {
    const std::vector<LogField> fields = {{"peer", hostile}, {hostile, 1}};
    const std::string line =
        FormatLine(LogFormat::kJson, kEpoch, LogLevel::kWarning, hostile, fields);
    EXPECT_TRUE(IsPrintableAscii(line)) << line;
    EXPECT_LT(line.size(), 20'000u);
    const json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(record.is_object()) << line;
    EXPECT_EQ(record["level"], "warning");
    EXPECT_TRUE(record["peer"].is_string());
  }
}

TEST(FormatLineTest, JsonKeepsWhatIsValid) {
  const std::string text = "a \"b\" \\ \n \xf0\x9f\x98\x80";
  const json record = json::parse(
      FormatLine(LogFormat::kJson, kEpoch, LogLevel::kInfo, "message", {{"peer", text}}));
  EXPECT_EQ(record["peer"], text);
}

TEST(FormatLineTest, TextIsOnePrintableLineWhateverTheStrings) {
  for (const std::string& hostile : HostileStrings()) {
    const std::vector<LogField> fields = {{"peer", hostile}, {hostile, 1}};
    const std::string line =
        FormatLine(LogFormat::kText, kEpoch, LogLevel::kWarning, hostile, fields);
    EXPECT_TRUE(IsPrintableAscii(line)) << line;
    EXPECT_LT(line.size(), 20'000u);
  }
}

TEST(FormatLineTest, TextCannotForgeAField) {
  const std::string line = FormatLine(LogFormat::kText, kEpoch, LogLevel::kInfo, "call",
                                      {{"request_id", "x code=OK"}, {"code", "INTERNAL"}});
  EXPECT_THAT(line, HasSubstr("request_id=\"x code=OK\" code=INTERNAL"));
}

TEST(FormatLineTest, WritesEveryTypeOfValue) {
  const std::vector<LogField> fields = {
      {"yes", true},
      {"small", -5},
      {"least", std::numeric_limits<int64_t>::min()},
      {"most", std::numeric_limits<uint64_t>::max()},
      {"real", 0.000123},
      {"nan", std::nan("")},
      {"infinite", std::numeric_limits<double>::infinity()},
      {"text", "some words"},
  };
  EXPECT_EQ(FormatLine(LogFormat::kText, kEpoch, LogLevel::kInfo, "all kinds", fields),
            "1970-01-01T00:00:00.000000Z info all kinds yes=true small=-5 "
            "least=-9223372036854775808 most=18446744073709551615 real=0.000123 nan=null "
            "infinite=null text=\"some words\"");
  EXPECT_EQ(
      FormatLine(LogFormat::kJson, kEpoch, LogLevel::kInfo, "all kinds", fields),
      "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"info\",\"message\":\"all kinds\","
      "\"yes\":true,\"small\":-5,\"least\":-9223372036854775808,"
      "\"most\":18446744073709551615,\"real\":0.000123,\"nan\":null,\"infinite\":null,"
      "\"text\":\"some words\"}");
}

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { InitLogging({}); }

  static std::vector<json> Records(const std::function<void()>& log) {
    ::testing::internal::CaptureStderr();
    log();
    std::vector<json> records;
    for (const auto& line :
         absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty())) {
      records.push_back(json::parse(std::string(line)));
    }
    return records;
  }

  static CallRecord Call() {
    CallRecord record;
    record.method = "Multiply";
    record.peer = "ipv4:127.0.0.1:40000";
    record.request_id = "r-1";
    record.m = 2;
    record.n = 3;
    record.k = 4;
    record.dtype = "f32";
    record.kernel = "tiled_f32_32x32x32";
    record.phases[static_cast<size_t>(Phase::kCompute)] = absl::Microseconds(5);
    record.total = absl::Milliseconds(1);
    return record;
  }
};

TEST_F(LogTest, WritesOnlyWhatTheLevelAllows) {
  InitLogging({.level = LogLevel::kWarning, .format = LogFormat::kJson});
  const auto records = Records([] {
    Log(LogLevel::kInfo, "no");
    Log(LogLevel::kWarning, "yes");
  });
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0]["message"], "yes");
}

TEST_F(LogTest, CallsAreDebugRecords) {
  InitLogging({.level = LogLevel::kInfo, .format = LogFormat::kJson});
  EXPECT_EQ(Records([] { LogCall(Call()); }).size(), 0u);

  InitLogging({.level = LogLevel::kDebug, .format = LogFormat::kJson});
  const auto records = Records([] { LogCall(Call()); });
  ASSERT_EQ(records.size(), 1u);
  const json& record = records[0];
  EXPECT_EQ(record["level"], "debug");
  EXPECT_EQ(record["method"], "Multiply");
  EXPECT_EQ(record["code"], "OK");
  EXPECT_EQ(record["request_id"], "r-1");
  EXPECT_EQ(record["m"], 2);
  EXPECT_EQ(record["n"], 3);
  EXPECT_EQ(record["k"], 4);
  EXPECT_EQ(record["dtype"], "f32");
  EXPECT_EQ(record["kernel"], "tiled_f32_32x32x32");
  EXPECT_DOUBLE_EQ(record["compute_seconds"], 5e-6);
  EXPECT_DOUBLE_EQ(record["total_seconds"], 1e-3);
  EXPECT_FALSE(record.contains("queue_seconds"));
  EXPECT_FALSE(record.contains("error"));
}

TEST_F(LogTest, SlowAndFailedCallsAreWarnings) {
  InitLogging({.format = LogFormat::kJson, .slow_call = absl::Seconds(2)});
  const auto records = Records([] {
    CallRecord slow = Call();
    slow.total = absl::Seconds(2);
    LogCall(slow);
    CallRecord failed = Call();
    failed.dtype = {};
    failed.kernel = {};
    failed.grpc_code = 3;
    failed.message = "m must not be \"negative\"";
    LogCall(failed);
  });
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["level"], "warning");
  EXPECT_EQ(records[0]["message"], "slow call");
  EXPECT_EQ(records[1]["level"], "warning");
  EXPECT_EQ(records[1]["message"], "call failed");
  EXPECT_EQ(records[1]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(records[1]["error"], "m must not be \"negative\"");
  EXPECT_FALSE(records[1].contains("m"));
}

TEST_F(LogTest, ACallOfManyProductsTellsHowMany) {
  InitLogging({.level = LogLevel::kDebug, .format = LogFormat::kJson});
  const auto records = Records([] {
    CallRecord many = Call();
    many.dtype = {};
    many.products = 32;
    many.products_failed = 2;
    LogCall(many);
    LogCall(Call());
  });
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["products"], 32);
  EXPECT_EQ(records[0]["products_failed"], 2);
  EXPECT_FALSE(records[0].contains("m"));
  EXPECT_FALSE(records[1].contains("products"));
}

TEST_F(LogTest, AStormOfFailuresIsCutShort) {
  InitLogging({.format = LogFormat::kJson});
  constexpr int kCalls = 20 * kCallWarningsPerSecond;
  const absl::Time start = absl::Now();
  const auto records = Records([] {
    CallRecord failed = Call();
    failed.grpc_code = 14;
    for (int i = 0; i < kCalls; ++i) LogCall(failed);
  });
  const int64_t seconds = absl::ToInt64Seconds(absl::Now() - start) + 2;
  EXPECT_LE(records.size(), static_cast<size_t>(seconds * kCallWarningsPerSecond));
  EXPECT_GT(records.size(), 0u);
}

// Standard error as a pipe of two pages, which nobody reads until Take.
class FullPipeTest : public LogTest {
 protected:
  FullPipeTest() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    EXPECT_EQ(fcntl(pipe_[0], F_SETFL, O_NONBLOCK), 0);
    EXPECT_GE(fcntl(pipe_[1], F_SETPIPE_SZ, 8192), 8192);
    EXPECT_EQ(dup2(pipe_[1], STDERR_FILENO), STDERR_FILENO);
    InitLogging({.format = LogFormat::kJson});
    Log(LogLevel::kInfo, "what the test before left out is told");
    Take();
  }
  ~FullPipeTest() override {
    dup2(stderr_, STDERR_FILENO);
    for (int file : {stderr_, pipe_[0], pipe_[1]}) close(file);
  }

  // The lines that are in it, or in so many bytes.
  std::vector<std::string> Take(size_t bytes = 1 << 20) const {
    std::string text(bytes, '\0');
    text.resize(
        static_cast<size_t>(std::max<ssize_t>(0, read(pipe_[0], text.data(), text.size()))));
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }

 private:
  const int stderr_ = dup(STDERR_FILENO);
  int pipe_[2] = {-1, -1};
};

TEST_F(FullPipeTest, RecordsThatNobodyTakesAreLeftOutAndCounted) {
  for (int i = 0; i < 100; ++i) Log(LogLevel::kInfo, "first");  // would stand still here
  const size_t taken = Take().size();
  EXPECT_GE(taken, 1u);
  EXPECT_LT(taken, 100u);
  Log(LogLevel::kInfo, "again");
  const std::vector<std::string> lines = Take();
  ASSERT_EQ(lines.size(), 2u);
  const json missing = json::parse(lines[0]);
  EXPECT_EQ(missing["message"], "log was not taken");
  EXPECT_EQ(missing["level"], "warning");
  EXPECT_EQ(missing["records_left_out"], 100 - taken);
  EXPECT_EQ(json::parse(lines[1])["message"], "again");
}

TEST_F(FullPipeTest, ALineThatIsCutDoesNotSpoilTheNext) {
  const std::string kilobyte(1000, 'x');
  const std::vector<LogField> fields(12, {"x", kilobyte});
  Log(LogLevel::kInfo, "long", fields);
  const std::vector<std::string> cut = Take();
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_FALSE(json::accept(cut.front()));
  Log(LogLevel::kInfo, "next");
  const std::vector<std::string> lines = Take();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(json::parse(lines[0])["records_left_out"], 1);
  EXPECT_EQ(json::parse(lines[1])["message"], "next");
}

TEST_F(FullPipeTest, AReaderThatIsAlwaysBehindHoldsUpLittle) {
  constexpr int kPages = 40;
  const absl::Time start = SteadyNow();
  for (int page = 0; page < kPages; ++page) {
    for (int i = 0; i < 200; ++i) Log(LogLevel::kInfo, "more than the pipe has room for");
    EXPECT_FALSE(Take(4096).empty()) << page;
  }
  EXPECT_LT(SteadyNow() - start, kPages * absl::Milliseconds(100) / 2);
}

TEST_F(FullPipeTest, AnErrorWaitsForTheReader) {
  for (int i = 0; i < 200; ++i) Log(LogLevel::kInfo, "more than the pipe has room for");
  const absl::Time start = SteadyNow();
  Log(LogLevel::kError, "nobody takes it");
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(90));
}

}  // namespace
}  // namespace gemm
