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
  EXPECT_EQ(outcome.err, "gemmctl: RESOURCE_EXHAUSTED (MEMORY_TOO_SMALL): too big\n");
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
        "explain 1 2 3 --dtype f16", "nonsense", ""}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("gemmctl: ")) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
  EXPECT_EQ(RunAt("nowhere", "info").exit_code, 2);
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(GemmctlTest, NoServer) {
  const Outcome outcome = RunAt("127.0.0.1:1", "--retries 0 info");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("gemmctl: UNAVAILABLE: no server listens at"),
                                 HasSubstr("is gemmd running there?")));
}

TEST_F(GemmctlTest, AddressFromTheEnvironment) {
  setenv("GEMMD_ADDRESS", server_.address().c_str(), 1);
  const int status = std::system(GEMMCTL_PATH " health >/dev/null");
  unsetenv("GEMMD_ADDRESS");
  EXPECT_EQ(status, 0);
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
}

}  // namespace
}  // namespace gemm::cli
