#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "server/host_port.h"

namespace gemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

using Strings = std::vector<std::string>;

absl::StatusOr<ParsedOptions> Parse(const Strings& arguments, const Strings& environment = {}) {
  std::vector<const char*> argv = {"gemmd"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::vector<const char*> variables;
  for (const std::string& variable : environment) variables.push_back(variable.c_str());
  variables.push_back(nullptr);
  return ParseOptions(static_cast<int>(argv.size()), argv.data(), variables.data());
}

Options ParseOk(const Strings& arguments, const Strings& environment = {}) {
  const auto parsed = Parse(arguments, environment);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->options : Options();
}

std::string ErrorOf(const Strings& arguments, const Strings& environment = {}) {
  const auto parsed = Parse(arguments, environment);
  if (parsed.ok()) return "no error";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  std::string message(parsed.status().message());
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message;
}

// A file of options that lives as long as this.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(::testing::TempDir() + "gemmd-options-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml") {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::remove(path_.c_str()); }

  const std::string& path() const { return path_; }
  std::string flag() const { return "--config=" + path_; }

 private:
  std::string path_;
};

TEST(OptionsTest, DefaultsAreThoseOfTheStruct) {
  const auto parsed = Parse({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->outcome, ParsedOptions::Outcome::kRun);
  EXPECT_EQ(parsed->options.listen, "127.0.0.1:50051");
  EXPECT_EQ(parsed->options.unix_listen, "");
  EXPECT_EQ(parsed->options.metrics_listen, "127.0.0.1:9464");
  EXPECT_EQ(parsed->options.message_limit_bytes, 64u << 20);
  EXPECT_EQ(parsed->options.drain_timeout, absl::Seconds(30));
  EXPECT_THAT(parsed->warnings, IsEmpty());
  EXPECT_THAT(parsed->changed, IsEmpty());
}

TEST(OptionsTest, EveryFlagSetsItsField) {
  const Options options = ParseOk({"--listen=0.0.0.0:0",
                                   "--unix-listen=/run/gemmd/gemmd.sock",
                                   "--insecure",
                                   "--metrics-listen=[::1]:0",
                                   "--device=cpu",
                                   "--force-kernel=tiled_f32_32x32x32",
                                   "--drain-window=5s",
                                   "--drain-timeout=1m",
                                   "--reflection",
                                   "--log-level=debug",
                                   "--log-format=json",
                                   "--slow-call=200us",
                                   "--message-limit=128MiB",
                                   "--admission-budget=256MiB",
                                   "--admission-line=7",
                                   "--host-memory=1GiB",
                                   "--queue-problems=9",
                                   "--queue-bytes=10k",
                                   "--queue-flops=3e12",
                                   "--receive-timeout=5s",
                                   "--matrix-memory=3GiB",
                                   "--matrix-quota=2GiB",
                                   "--matrix-count=17",
                                   "--matrix-ttl=2m",
                                   "--matrix-ttl-limit=3m",
                                   "--executor-threads=3"});
  EXPECT_EQ(options.listen, "0.0.0.0:0");
  EXPECT_EQ(options.unix_listen, "/run/gemmd/gemmd.sock");
  EXPECT_TRUE(options.insecure);
  EXPECT_EQ(options.metrics_listen, "[::1]:0");
  EXPECT_EQ(options.device, DeviceChoice::kCpu);
  EXPECT_EQ(options.force_kernel, "tiled_f32_32x32x32");
  EXPECT_EQ(options.drain_window, absl::Seconds(5));
  EXPECT_EQ(options.drain_timeout, absl::Minutes(1));
  EXPECT_TRUE(options.reflection);
  EXPECT_EQ(options.log_level, LogLevel::kDebug);
  EXPECT_EQ(options.log_format, LogFormat::kJson);
  EXPECT_EQ(options.slow_call, absl::Microseconds(200));
  EXPECT_EQ(options.message_limit_bytes, 128u << 20);
  EXPECT_EQ(options.admission_budget_bytes, 256u << 20);
  EXPECT_EQ(options.admission_line, 7);
  EXPECT_EQ(options.host_memory_bytes, 1u << 30);
  EXPECT_EQ(options.queue_problems, 9u);
  EXPECT_EQ(options.queue_flops, 3e12);
  EXPECT_EQ(options.receive_timeout, absl::Seconds(5));
  EXPECT_EQ(options.matrix_memory_bytes, uint64_t{3} << 30);
  EXPECT_EQ(options.matrix_quota_bytes, uint64_t{2} << 30);
  EXPECT_EQ(options.matrix_count, 17u);
  EXPECT_EQ(options.matrix_ttl, absl::Minutes(2));
  EXPECT_EQ(options.matrix_ttl_limit, absl::Minutes(3));
  EXPECT_EQ(options.queue_bytes, 10u << 10);
  EXPECT_EQ(options.executor_threads, 3);
}

TEST(OptionsTest, ReportsWhatDiffersFromTheDefaults) {
  const auto parsed = Parse({"--message-limit=65536KiB", "--host-memory=4096MiB", "--reflection"},
                            {"GEMMD_DRAIN_WINDOW=1500ms"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->changed, ElementsAre(Pair("drain-window", "1.5s"), Pair("reflection", "true"),
                                           Pair("host-memory", "4GiB")));
}

TEST(OptionsTest, HelpAndVersionAreOutcomes) {
  const auto help = Parse({"--help"});
  ASSERT_TRUE(help.ok()) << help.status();
  EXPECT_EQ(help->outcome, ParsedOptions::Outcome::kHelp);
  EXPECT_THAT(help->help, AllOf(HasSubstr("--message-limit"), HasSubstr("Exit status"),
                                HasSubstr("3 the last device was lost")));
  const auto version = Parse({"--version"});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->outcome, ParsedOptions::Outcome::kVersion);
}

TEST(OptionsTest, FlagsWinOverTheEnvironmentWhichWinsOverTheFile) {
  const ConfigFile file(
      "message-limit = \"1MiB\"\nqueue-problems = 11\nadmission-line = 12\nreflection = true\n"
      "metrics-listen = \"\"\n");
  const Strings environment = {"GEMMD_MESSAGE_LIMIT=2MiB", "GEMMD_QUEUE_PROBLEMS=21",
                               "GEMMD_REFLECTION=false"};
  const Options options = ParseOk({"--message-limit=3MiB", file.flag()}, environment);
  EXPECT_EQ(options.message_limit_bytes, 3u << 20);
  EXPECT_EQ(options.queue_problems, 21u);
  EXPECT_EQ(options.admission_line, 12);
  EXPECT_FALSE(options.reflection);
  EXPECT_EQ(options.metrics_listen, "");
}

TEST(OptionsTest, TheFileCanBeNamedByTheEnvironment) {
  const ConfigFile file("# a comment\nqueue-problems = 11\n");
  EXPECT_EQ(ParseOk({}, {"GEMMD_CONFIG=" + file.path()}).queue_problems, 11u);
}

TEST(OptionsTest, AnEmptyAddressDisablesTheMetricsPage) {
  EXPECT_EQ(ParseOk({"--metrics-listen="}).metrics_listen, "");
  EXPECT_EQ(ParseOk({"--metrics-listen", ""}).metrics_listen, "");
  EXPECT_EQ(ParseOk({"--metrics-listen=", "--reflection"}).metrics_listen, "");
  EXPECT_EQ(ParseOk({}, {"GEMMD_METRICS_LISTEN="}).metrics_listen, "");
}

TEST(OptionsTest, SwitchesTakeAValueFromTheEnvironment) {
  EXPECT_TRUE(ParseOk({}, {"GEMMD_REFLECTION=true"}).reflection);
  EXPECT_TRUE(ParseOk({}, {"GEMMD_REFLECTION=1"}).reflection);
  EXPECT_FALSE(ParseOk({}, {"GEMMD_REFLECTION=false"}).reflection);
  EXPECT_FALSE(ParseOk({"--reflection=false"}, {"GEMMD_REFLECTION=true"}).reflection);
  EXPECT_EQ(ErrorOf({}, {"GEMMD_REFLECTION="}), "GEMMD_REFLECTION: must be true or false");
  EXPECT_EQ(ErrorOf({}, {"GEMMD_REFLECTION=perhaps"}), "GEMMD_REFLECTION: must be true or false");
  EXPECT_EQ(ErrorOf({"--reflection=perhaps"}), "--reflection: must be true or false");
  const ConfigFile file("reflection = perhaps\n");
  EXPECT_EQ(ErrorOf({file.flag()}), file.path() + ": reflection: must be true or false");
}

TEST(OptionsTest, WarnsAboutVariablesThatAreNoOptions) {
  const auto parsed =
      Parse({}, {"GEMMD_MESSAGE_LIMTI=1MiB", "GEMMD_ADDRESS=a:1", "GEMMD_TOKEN_FILE=t",
                 "GEMMD_CA_FILE=c", "GEMMD_SERVICE_HOST=10.0.0.1", "GEMMD_PORT=tcp://10.0.0.1:1",
                 "GEMMD_PORT_50051_TCP=tcp://10.0.0.1:50051", "GEMMD_VERSION=1", "HOME=/",
                 "GEMMD_message_limit=1", "GEMMD_HELP=1"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->warnings, ElementsAre(StartsWith("GEMMD_MESSAGE_LIMTI is not"),
                                            StartsWith("GEMMD_message_limit is not"),
                                            StartsWith("GEMMD_HELP is not")));
}

TEST(OptionsTest, ErrorsNameWhatTheOperatorWrote) {
  const std::string limit = "must be from 1KiB to 2147483647, not 3GiB";
  EXPECT_EQ(ErrorOf({"--message-limit=3GiB"}), "--message-limit: " + limit);
  EXPECT_EQ(ErrorOf({}, {"GEMMD_MESSAGE_LIMIT=3GiB"}), "GEMMD_MESSAGE_LIMIT: " + limit);
  const ConfigFile file("message-limit = \"3GiB\"\n");
  EXPECT_EQ(ErrorOf({file.flag()}), file.path() + ": message-limit: " + limit);
}

TEST(OptionsTest, RefusesWrongSizes) {
  for (const char* text : {"", "x", "-1", "1.5GiB", "1 furlong", "GiB", "99999999999999999999",
                           "99999999999EiB", "1e6"}) {
    EXPECT_EQ(ErrorOf({"--message-limit", text}),
              std::string("--message-limit: \"") + text + "\" is not a size such as 64MiB");
  }
  EXPECT_EQ(ErrorOf({"--message-limit=1023"}),
            "--message-limit: must be from 1KiB to 2147483647, not 1023");
  EXPECT_EQ(ErrorOf({"--host-memory=1KiB"}), "--host-memory: must be from 1MiB to 64TiB, not 1KiB");
  EXPECT_EQ(ParseOk({"--message-limit=1KiB"}).message_limit_bytes, 1024u);
  EXPECT_EQ(ParseOk({"--message-limit=2147483647", "--admission-budget=2GiB", "--host-memory=4GiB"})
                .message_limit_bytes,
            2147483647u);
}

TEST(OptionsTest, RefusesWrongDurations) {
  for (const char* text : {"", "5", "soon", "1 s"}) {
    EXPECT_EQ(ErrorOf({"--drain-timeout", text}), std::string("--drain-timeout: \"") + text +
                                                      "\" is not a duration such as 30s or 200us");
  }
  EXPECT_EQ(ErrorOf({"--drain-timeout=-1s"}), "--drain-timeout: must be from 0s to 24h, not -1s");
  EXPECT_EQ(ErrorOf({"--drain-timeout=inf"}), "--drain-timeout: must be from 0s to 24h, not inf");
  EXPECT_EQ(ErrorOf({"--drain-window=61m"}), "--drain-window: must be from 0s to 1h, not 61m");
  EXPECT_EQ(ErrorOf({"--slow-call=25h"}), "--slow-call: must be from 0s to 24h, not 25h");
}

TEST(OptionsTest, RefusesWrongCounts) {
  for (const char* text : {"", "many", "1.5", "0x10", "99999999999999999999"}) {
    EXPECT_EQ(
        ErrorOf({"--queue-problems", text}),
        std::string("--queue-problems: \"") + text + "\" is not a whole number from 1 to 1000000");
  }
  EXPECT_EQ(ErrorOf({"--queue-flops=much"}),
            "--queue-flops: \"much\" is not a number such as 2e15");
  EXPECT_EQ(ErrorOf({"--receive-timeout=1ms"}),
            "--receive-timeout: must be from 100ms to 24h, not 1ms");
  EXPECT_EQ(ErrorOf({"--queue-flops=0"}), "--queue-flops: must be from 1 to 1e+18, not 0");
  EXPECT_EQ(ErrorOf({"--queue-flops=nan"}), "--queue-flops: must be from 1 to 1e+18, not nan");
  EXPECT_EQ(ErrorOf({"--queue-problems=0"}), "--queue-problems: must be from 1 to 1000000, not 0");
  EXPECT_EQ(ErrorOf({"--admission-line=-1"}),
            "--admission-line: must be from 0 to 1000000, not -1");
  EXPECT_EQ(ErrorOf({"--executor-threads=1025"}),
            "--executor-threads: must be from 0 to 1024, not 1025");
}

TEST(OptionsTest, RefusesWrongChoices) {
  EXPECT_EQ(ErrorOf({"--device=gpu"}), "--device: must be one of auto|cuda|cpu, not gpu");
  EXPECT_EQ(ErrorOf({"--log-level=loud"}),
            "--log-level: must be one of debug|info|warning|error, not loud");
  EXPECT_EQ(ErrorOf({"--log-format=xml"}), "--log-format: must be one of text|json, not xml");
}

TEST(OptionsTest, RefusesWrongAddresses) {
  for (const char* text :
       {"50051", ":50051", "localhost", "localhost:", "localhost:http", "localhost:65536",
        "localhost:-1", "::1:50051", "[::1]", "[]:1", "[localhost]:1", "unix:/tmp/socket"}) {
    EXPECT_THAT(ErrorOf({"--listen", text}),
                StartsWith(std::string("--listen: \"") + text + "\" is not host:port"));
  }
  EXPECT_THAT(ErrorOf({"--metrics-listen=9464"}), HasSubstr("--metrics-listen: \"9464\" is not"));
}

TEST(OptionsTest, AnEmptyAddressLeavesTheUnixSocket) {
  for (const Strings& arguments : {Strings{"--listen=", "--unix-listen=/run/gemmd.sock"},
                                   Strings{"--unix-listen", "/run/gemmd.sock", "--listen", ""}}) {
    EXPECT_EQ(ParseOk(arguments).listen, "");
    EXPECT_EQ(ParseOk(arguments).unix_listen, "/run/gemmd.sock");
  }
  EXPECT_EQ(ParseOk({}, {"GEMMD_LISTEN=", "GEMMD_UNIX_LISTEN=g.sock"}).unix_listen, "g.sock");
  EXPECT_EQ(ParseOk({"--unix-listen="}).unix_listen, "");
  for (const Strings& arguments : {Strings{"--listen="}, Strings{"--listen=", "--unix-listen="}}) {
    EXPECT_EQ(ErrorOf(arguments), "--listen: is empty, and so is --unix-listen");
  }
}

TEST(OptionsTest, RefusesPathsThatNoSocketOrAddressCanHave) {
  const std::string longest = "/" + std::string(106, 'x');
  EXPECT_EQ(ParseOk({"--unix-listen", longest}).unix_listen, longest);
  EXPECT_EQ(ErrorOf({"--unix-listen", longest + "x"}),
            "--unix-listen: \"" + longest + "x\" has 108 bytes; a socket's path has at most 107");
  for (const char* text :
       {"/run/my socket", "/run/100%", "/run/g.sock?", "/run/g#1", "/run/\xc3\xa9", "/run/gemmd/",
        "/", "unix:/run/g.sock", "unix:///run/g.sock"}) {
    EXPECT_THAT(ErrorOf({"--unix-listen", text}),
                StartsWith(std::string("--unix-listen: \"") + text + "\" is not a path such as"));
  }
  EXPECT_EQ(ParseOk({"--unix-listen=/run/-._~+@=,:7"}).unix_listen, "/run/-._~+@=,:7");
}

TEST(OptionsTest, ListeningToOtherMachinesTakesInsecure) {
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "10.1.2.3:0", "node7:50051",
                              "127.evil.example:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_THAT(ErrorOf({"--listen", address}),
                AllOf(StartsWith(std::string("--listen: ") + address), HasSubstr("--insecure"),
                      HasSubstr("TLS")));
    EXPECT_EQ(ParseOk({"--listen", address, "--insecure"}).listen, address);
  }
  for (const char* address : {"127.0.0.1:50051", "127.8.9.1:1", "localhost:0", "[::1]:50051"}) {
    EXPECT_EQ(ParseOk({"--listen", address}).listen, address);
  }
  EXPECT_EQ(ParseOk({"--metrics-listen=0.0.0.0:9464"}).metrics_listen, "0.0.0.0:9464");
}

TEST(OptionsTest, RefusesOptionsThatContradictEachOther) {
  EXPECT_EQ(ErrorOf({"--message-limit=128MiB", "--admission-budget=64MiB"}),
            "--admission-budget (64MiB) must be at least --message-limit (128MiB)");
  EXPECT_EQ(
      ErrorOf({"--message-limit=512MiB", "--host-memory=1023MiB"}),
      "--host-memory (1023MiB) must be at least twice --message-limit (512MiB), for a request "
      "and its reply");
  EXPECT_EQ(ErrorOf({"--listen=127.0.0.1:7000", "--metrics-listen=127.0.0.1:7000"}),
            "--metrics-listen and --listen are both 127.0.0.1:7000");
  EXPECT_EQ(ErrorOf({"--matrix-ttl=2h", "--matrix-ttl-limit=1h"}),
            "--matrix-ttl-limit (1h) must be at least --matrix-ttl (2h)");
  EXPECT_EQ(ParseOk({"--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"}).listen,
            "127.0.0.1:0");
}

TEST(OptionsTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(ErrorOf({"--message-limti=1MiB"}), HasSubstr("--message-limti"));
  EXPECT_THAT(ErrorOf({"serve"}), HasSubstr("serve"));
  const ConfigFile file("message-limti = \"1MiB\"\n");
  EXPECT_EQ(ErrorOf({file.flag()}), file.path() + ": message-limti is not an option of gemmd");
}

TEST(OptionsTest, RefusesUnknownSectionsOfTheFile) {
  const ConfigFile file("[server]\nmessage-limit = \"1MiB\"\n");
  EXPECT_THAT(ErrorOf({file.flag()}), StartsWith(file.path() + ": server"));
}

TEST(OptionsTest, RefusesOptionsGivenTwiceOrWithoutAValue) {
  EXPECT_EQ(ErrorOf({"--device=cpu", "--device=cuda"}), "--device: is given more than once");
  EXPECT_THAT(ErrorOf({"--device"}), StartsWith("--device: "));
}

TEST(OptionsTest, RefusesAFileThatIsNotThere) {
  EXPECT_THAT(ErrorOf({"--config=/nonexistent/gemmd.toml"}),
              AllOf(StartsWith("--config: "), HasSubstr("/nonexistent/gemmd.toml")));
  EXPECT_THAT(ErrorOf({}, {"GEMMD_CONFIG=/nonexistent/gemmd.toml"}), StartsWith("GEMMD_CONFIG: "));
}

TEST(HostPortTest, RoundTrips) {
  for (const char* text : {"127.0.0.1:50051", "localhost:0", "[::1]:65535"}) {
    const auto address = ParseHostPort(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(ToString(*address), text);
  }
  EXPECT_EQ(ParseHostPort("[::1]:1")->host, "::1");
}

}  // namespace
}  // namespace gemm
