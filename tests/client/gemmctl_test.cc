// Runs the gemmctl program against a server in this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/npy.h"
#include "nlohmann/json.hpp"
#include "tests/client/fake_server.h"

namespace gemm::cli {
namespace {

using gemm::testing::FakeServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class GemmctlTest : public ::testing::Test {
 protected:
  GemmctlTest() {
    std::string folder = ::testing::TempDir() + "/gemmctl_test_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    unsetenv("GEMMD_ADDRESS");
    Save("a.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
    Save("b.npy", {3, 2}, {1, 0, 0, 1, 1, 1});
    Save("c.npy", {2, 2}, {10, 20, 30, 40});
  }
  ~GemmctlTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  void Save(const std::string& name, const Shape& shape, const std::vector<float>& values) const {
    absl::StatusOr<NpyWriter> writer = NpyWriter::Create(Path(name), ElementType::kF32, shape);
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::copy(values.begin(), values.end(), writer->elements<float>().begin());
    ASSERT_TRUE(writer->Commit().ok());
  }

  std::vector<float> Load(const std::string& name) const {
    const absl::StatusOr<NpyArray> array = NpyArray::Open(Path(name));
    EXPECT_TRUE(array.ok()) << array.status();
    if (!array.ok()) return {};
    return {array->elements<float>().begin(), array->elements<float>().end()};
  }

  // In the test's folder.
  Outcome RunAt(const std::string& address, const std::string& arguments) const {
    const std::string command = "cd " + folder_ + " && " GEMMCTL_PATH " --address " + address +
                                " " + arguments + " >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Text("out"), Text("err")};
  }
  Outcome Run(const std::string& arguments) const { return RunAt(server_.address(), arguments); }

  FakeServer server_;

 private:
  std::string Text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(GemmctlTest, Multiply) {
  const Outcome outcome = Run("multiply a.npy b.npy -o d.npy");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("d.npy: 2 x 2 f32"), HasSubstr("fake_f32_1x1x1"),
                                 HasSubstr("copy_out"), HasSubstr("GB/s")));
  EXPECT_THAT(Load("d.npy"), ElementsAre(4, 5, 10, 11));
}

TEST_F(GemmctlTest, MultiplyWithEverything) {
  const Outcome outcome =
      Run("multiply a.npy a.npy --transpose-b --c c.npy --alpha 2 --beta -1 --precision strict "
          "-o d.npy --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(Load("d.npy"), ElementsAre(18, 44, 34, 114));
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["shape"], nlohmann::json({2, 2}));
  EXPECT_EQ(json["kernel"], "fake_f32_1x1x1");
  EXPECT_EQ(json["server_seconds"]["compute"], 6e-9);
  EXPECT_GT(json["total_seconds"], 0.0);
  EXPECT_EQ(server_.last_request().payloads_size(), 2);  // a.npy goes once
}

TEST_F(GemmctlTest, StacksBroadcast) {
  Save("stack.npy", {2, 3, 1}, {1, 0, 0, 0, 0, 1});
  EXPECT_EQ(Run("multiply a.npy stack.npy -o d.npy").exit_code, 0);
  EXPECT_THAT(Load("d.npy"), ElementsAre(1, 4, 3, 6));
}

TEST_F(GemmctlTest, FailedCallsLeaveNoFile) {
  server_.FailNext({gemm::testing::DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "too big",
                                                  "MEMORY_TOO_SMALL", "", 0)});
  const Outcome outcome = Run("multiply a.npy b.npy -o d.npy");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "gemmctl: RESOURCE_EXHAUSTED (MEMORY_TOO_SMALL): too big\n"
            "  start the server with a larger --host-memory, or multiply in parts\n");
  for (const auto& entry : std::filesystem::directory_iterator(Path(""))) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("d.npy")));
  }
}

TEST_F(GemmctlTest, BadInputIsExitCode2) {
  std::ofstream(Path("text.npy")) << "hello";
  for (const char* arguments :
       {"multiply a.npy none.npy -o d.npy", "multiply a.npy text.npy -o d.npy",
        "multiply a.npy a.npy -o d.npy", "multiply a.npy b.npy", "multiply a.npy b.npy -o no/d.npy",
        "multiply a.npy b.npy -o d.npy --c c.npy", "multiply a.npy b.npy -o d.npy --beta 1",
        "multiply a.npy b.npy -o d.npy --precision half", "--timeout soon info", "explain 1 2",
        "explain 1 2 3 --dtype f16", "perf --shapes 1x1", "perf --rate 1 --concurrency 1",
        "completion", "completion csh", "nonsense", ""}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("gemmctl: ")) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
  EXPECT_EQ(RunAt("nowhere", "info").exit_code, 2);
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(GemmctlTest, FailuresAsJson) {
  server_.FailNext({gemm::testing::DetailedStatus(grpc::StatusCode::INVALID_ARGUMENT, "m is odd",
                                                  "INVALID_REQUEST", "product.m", 0)});
  const Outcome call = Run("multiply a.npy b.npy -o d.npy --json");
  EXPECT_EQ(call.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(call.out)["error"], nlohmann::json({{"code", "INVALID_ARGUMENT"},
                                                                      {"reason", "INVALID_REQUEST"},
                                                                      {"field", "product.m"},
                                                                      {"message", "m is odd"},
                                                                      {"hint", ""}}));
  EXPECT_EQ(call.err, "gemmctl: INVALID_ARGUMENT (INVALID_REQUEST): m is odd\n");

  const Outcome input = Run("multiply a.npy none.npy -o d.npy --json");
  EXPECT_EQ(input.exit_code, 2);
  EXPECT_THAT(nlohmann::json::parse(input.out)["error"]["message"], HasSubstr("none.npy"));
  const Outcome address = RunAt("nowhere", "info --json");
  EXPECT_EQ(nlohmann::json::parse(address.out)["error"]["field"], "address");
}

TEST_F(GemmctlTest, AServerThatIsTooOld) {
  server_.FailNext({grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")});
  const Outcome outcome = Run("explain 1 2 3");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("does not know /gemm.v1.GemmService/Explain"),
                                 HasSubstr("the server is gemmd 1.2.3 and this is gemmctl"),
                                 HasSubstr("newer server")));
}

TEST_F(GemmctlTest, ProgressOfQuickTransfersIsNotWorthALine) {
  EXPECT_EQ(Run("multiply a.npy b.npy -o d.npy --progress").err, "");
  EXPECT_EQ(Run("multiply a.npy b.npy -o d.npy --no-progress").err, "");
}

TEST_F(GemmctlTest, NoServer) {
  const Outcome outcome = RunAt("127.0.0.1:1", "--retries 0 info");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("gemmctl: UNAVAILABLE: no server listens at"),
                                 HasSubstr("is gemmd running there, and is the port right?")));
}

TEST_F(GemmctlTest, AddressFromTheEnvironment) {
  setenv("GEMMD_ADDRESS", server_.address().c_str(), 1);
  const int status = std::system(GEMMCTL_PATH " health >/dev/null");
  unsetenv("GEMMD_ADDRESS");
  EXPECT_EQ(status, 0);
}

TEST_F(GemmctlTest, PerfPrintsWhatItMeasured) {
  const Outcome outcome =
      Run("perf --shapes 4x4x4/ta:3,3x2x5/f64 --duration 100ms --warmup 0s --concurrency 1,2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(StartsWith("gemmd 1.2.3 (abc) at 127.0.0.1:"),
                                 HasSubstr("shape     4x4x4/f32/ta, 75%: first (a transposed)"),
                                 HasSubstr("shape     3x2x5/f64, 25%: first (measured)")));
  const Outcome json = Run("perf --shapes 4x4x4 --duration 100ms --warmup 0s --rate 200 --json");
  const nlohmann::json report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["points"][0]["mean_seconds"]["compute"], 6e-9);
  EXPECT_EQ(report["check_calls"], 1);
}

TEST_F(GemmctlTest, PerfDoesNotMeasureAWrongServer) {
  server_.EditReplies([](v1::MultiplyReply& reply) { reply.mutable_payloads(0)->back() ^= 1; });
  const Outcome outcome = Run("perf --shapes 4x4x4 --duration 100ms --json");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the server's product of 4x4x4/f32 is wrong: element (3, 3)"));
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["code"], "DATA_LOSS");
  EXPECT_EQ(server_.calls(), 3);  // what it is, which kernel, and one product
}

TEST_F(GemmctlTest, Health) {
  EXPECT_EQ(Run("health").exit_code, 0);
  EXPECT_EQ(Run("health").out, "SERVING\n");
  EXPECT_EQ(Run("health --json").out, "{\"status\":\"SERVING\"}\n");
  server_.SetHealth(false);
  EXPECT_EQ(Run("health").exit_code, 1);
  EXPECT_EQ(Run("health").out, "NOT_SERVING\n");
}

TEST_F(GemmctlTest, InfoAndExplain) {
  EXPECT_THAT(Run("info").out, HasSubstr("gemmd 1.2.3 (abc), up 1s"));
  EXPECT_EQ(nlohmann::json::parse(Run("info --json").out)["devices"][0]["name"], "fake");
  EXPECT_THAT(Run("explain 2 3 5").out,
              AllOf(HasSubstr("first on 30 (measured)"), HasSubstr("cannot: k is odd")));
  const Outcome json = Run("explain 2 3 5 --dtype f64 --transpose-a --batch 2 --json");
  EXPECT_EQ(nlohmann::json::parse(json.out)["reason"], "a transposed");
}

TEST_F(GemmctlTest, Help) {
  const Outcome outcome = Run("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Exit codes:"), HasSubstr("Examples:")));
  EXPECT_THAT(Run("multiply --help").out, HasSubstr("numpy.matmul"));
  for (const char* command : {"multiply", "perf", "info", "health", "explain", "completion"}) {
    EXPECT_THAT(Run(std::string(command) + " --help").out, HasSubstr("Examples:\n  "));
  }
}

// Asks bash, with gemmctl's script loaded, what may follow `words`, the last of which is begun.
class CompletionTest : public GemmctlTest {
 protected:
  std::vector<std::string> Complete(const std::string& words) const {
    std::ofstream(Path("try.bash"))
        << "source <(" GEMMCTL_PATH " completion bash)\n"
        << "COMP_WORDS=(gemmctl " << words << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_gemmctl\n"
        << "printf '%s\\n' \"${COMPREPLY[@]}\" >" << Path("words") << "\n";
    EXPECT_EQ(std::system(("bash " + Path("try.bash")).c_str()), 0);
    std::ifstream file(Path("words"));
    std::vector<std::string> completions;
    for (std::string word; file >> word;) completions.push_back(word);
    return completions;
  }
};

TEST_F(CompletionTest, OffersWhatTheParserKnows) {
  EXPECT_THAT(Complete("''"),
              ElementsAre("multiply", "perf", "info", "health", "explain", "completion"));
  EXPECT_THAT(Complete("--address gpu7 ex"), ElementsAre("explain"));
  EXPECT_THAT(Complete("multiply --tr"), ElementsAre("--transpose-a", "--transpose-b"));
  EXPECT_THAT(Complete("info --ad"), ElementsAre("--address"));
  EXPECT_THAT(Complete("explain --dtype ''"), ElementsAre("f32", "f64"));
  EXPECT_THAT(Complete("explain --dtype = f6"), ElementsAre("f64"));
  EXPECT_THAT(Complete("completion ''"), ElementsAre("bash"));
}

TEST_F(CompletionTest, LeavesFilesToBash) {
  EXPECT_THAT(Complete("multiply ''"), ElementsAre());
  EXPECT_THAT(Complete("multiply -o ''"), ElementsAre());
  EXPECT_THAT(Complete("--address ''"), ElementsAre());
}

TEST_F(CompletionTest, OffersEveryOptionOfTheHelp) {
  for (const char* command : {"multiply", "perf", "info", "health", "explain", "completion"}) {
    const std::vector<std::string> offered = Complete(std::string(command) + " --");
    std::istringstream help(Run(std::string(command) + " --help").out);
    for (std::string line; std::getline(help, line);) {
      if (line.rfind("  -", 0) != 0) continue;
      const std::string names = line.substr(2, line.find_first_of(" {", 2) - 2);
      const std::string last = names.substr(names.rfind(',') + 1);
      EXPECT_THAT(offered, ::testing::Contains(last)) << command;
    }
  }
}

}  // namespace
}  // namespace gemm::cli
