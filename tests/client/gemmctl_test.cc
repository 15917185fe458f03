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

constexpr const char* kCommands[] = {"multiply", "put",  "get",    "list",    "rm",
                                     "perf",     "info", "health", "explain", "completion"};

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
            "  start the server with more memory for it (--host-memory, --device-memory, "
            "--matrix-memory), or work in parts\n");
  for (const auto& entry : std::filesystem::directory_iterator(Path(""))) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("d.npy")));
  }
}

TEST_F(GemmctlTest, BadInputIsExitCode2) {
  std::ofstream(Path("text.npy")) << "hello";
  Save("stack.npy", {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  for (const char* arguments : {"multiply a.npy none.npy -o d.npy",
                                "multiply a.npy text.npy -o d.npy",
                                "multiply a.npy a.npy -o d.npy",
                                "multiply a.npy b.npy",
                                "multiply a.npy b.npy -o no/d.npy",
                                "multiply a.npy b.npy -o d.npy --c c.npy",
                                "multiply a.npy b.npy -o d.npy --beta 1",
                                "multiply a.npy b.npy -o d.npy --precision half",
                                "--timeout soon info",
                                "explain 1 2",
                                "explain 1 2 3 --dtype f16",
                                "perf --shapes 1x1",
                                "perf --rate 1 --concurrency 1",
                                "perf --resident a",
                                "perf --upload 1GiB --batch 2",
                                "perf --upload much",
                                "multiply a.npy b.npy -o d.npy --result d",
                                "multiply a.npy b.npy -o d.npy --ttl 1m",
                                "multiply a.npy b.npy --result d/e",
                                "multiply @a/b b.npy -o d.npy",
                                "multiply @ b.npy -o d",
                                "put",
                                "put none.npy",
                                "put a.npy --name a/b",
                                "put stack.npy",
                                "put a.npy --ttl soon",
                                "get",
                                "get a",
                                "get a/b -o d.npy",
                                "rm",
                                "rm a/b",
                                "list a",
                                "completion",
                                "completion csh",
                                "nonsense",
                                ""}) {
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
  EXPECT_DOUBLE_EQ(report["points"][0]["mean_seconds"]["compute"], 6e-9);
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

TEST_F(GemmctlTest, PutListGetRemove) {
  const Outcome put = Run("put b.npy --ttl 90s");
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_THAT(put.out, AllOf(StartsWith("@b: 3 x 2 f32, 24 B in "), HasSubstr("GB/s\n"),
                             HasSubstr("kept for 1m30s without being used")));
  const nlohmann::json second = nlohmann::json::parse(Run("put a.npy --name x.1 --json").out);
  EXPECT_EQ(second["matrix"]["name"], "x.1");
  EXPECT_EQ(second["matrix"]["sealed"], true);
  EXPECT_EQ(second["bytes"], 24);

  EXPECT_THAT(Run("list").out, AllOf(StartsWith("@b    3 x 2 f32"), HasSubstr("\n@x.1  2 x 3 f32"),
                                     HasSubstr("sealed, expires in 1m30s")));
  const nlohmann::json list = nlohmann::json::parse(Run("list --json").out);
  EXPECT_EQ(list["matrices"][0]["name"], "b");
  EXPECT_EQ(list["matrices"][1]["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(list["matrices"][0]["ttl_seconds"], 90);

  const Outcome get = Run("get x.1 -o back.npy");
  EXPECT_EQ(get.exit_code, 0) << get.err;
  EXPECT_THAT(get.out, StartsWith("back.npy: 2 x 3 f32, 24 B in "));
  EXPECT_THAT(Load("back.npy"), ElementsAre(1, 2, 3, 4, 5, 6));

  const Outcome removed = Run("rm b x.1");
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_EQ(removed.out, "deleted @b\ndeleted @x.1\n");
  EXPECT_EQ(Run("list").out, "");
}

TEST_F(GemmctlTest, PutOfWhatIsThere) {
  ASSERT_EQ(Run("put a.npy --name w").exit_code, 0);
  const Outcome again = Run("put a.npy --name w");
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err,
              AllOf(HasSubstr("ALREADY_EXISTS (MATRIX_EXISTS)"), HasSubstr("gemmctl rm")));
  EXPECT_EQ(Run("put a.npy --name w --exist-ok").exit_code, 0);
  EXPECT_EQ(Run("put b.npy --name w --exist-ok").exit_code, 1);  // of another shape
}

TEST_F(GemmctlTest, RemoveGoesOnPastWhatIsNotThere) {
  ASSERT_EQ(Run("put a.npy").exit_code, 0);
  ASSERT_EQ(Run("put b.npy").exit_code, 0);
  const Outcome outcome = Run("rm none a nothing b --json");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("\"none\""), HasSubstr("\"nothing\"")));
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["reason"], "MATRIX_NOT_FOUND");
  EXPECT_EQ(Run("list").out, "");
}

TEST_F(GemmctlTest, MultiplyByName) {
  ASSERT_EQ(Run("put b.npy --name w").exit_code, 0);
  ASSERT_EQ(Run("put c.npy").exit_code, 0);
  EXPECT_EQ(Run("multiply a.npy @w -o d.npy").exit_code, 0);
  EXPECT_THAT(Load("d.npy"), ElementsAre(4, 5, 10, 11));
  EXPECT_EQ(server_.last_request().payloads_size(), 1);
  EXPECT_EQ(Run("multiply a.npy @w --c @c --beta 1 -o d.npy").exit_code, 0);
  EXPECT_THAT(Load("d.npy"), ElementsAre(14, 25, 40, 51));
  EXPECT_EQ(Run("multiply @w @w --transpose-b -o d.npy").exit_code, 0);
  EXPECT_THAT(Load("d.npy"), ElementsAre(1, 0, 1, 0, 1, 1, 1, 1, 2));

  const Outcome kept = Run("multiply a.npy @w --result h --ttl 9s");
  EXPECT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_THAT(kept.out, StartsWith("@h: 2 x 2 f32\n"));
  const nlohmann::json json =
      nlohmann::json::parse(Run("multiply @h @h --result hh --ttl 9s --json").out);
  EXPECT_EQ(json["output"], nullptr);
  EXPECT_EQ(json["result"]["name"], "hh");
  EXPECT_EQ(json["result"]["ttl_seconds"], 9);
  EXPECT_EQ(Run("get hh -o hh.npy").exit_code, 0);
  EXPECT_THAT(Load("hh.npy"), ElementsAre(66, 75, 150, 171));

  const Outcome wrong = Run("multiply @w @w -o e.npy");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("@w (3 x 2) has 2 columns, @w (3 x 2) has 3 rows"));
  const Outcome lost = Run("multiply a.npy @gone -o e.npy");
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.err, AllOf(HasSubstr("NOT_FOUND (MATRIX_NOT_FOUND)"), HasSubstr("gone"),
                              HasSubstr("the server has restarted")));
  EXPECT_FALSE(std::filesystem::exists(Path("e.npy")));
}

TEST_F(GemmctlTest, AFileWhoseNameBeginsWithAnAt) {
  Save("@w", {3, 2}, {1, 0, 0, 1, 1, 1});
  EXPECT_EQ(Run("multiply a.npy ./@w -o d.npy").exit_code, 0);
  EXPECT_THAT(Load("d.npy"), ElementsAre(4, 5, 10, 11));
}

TEST_F(GemmctlTest, GetLeavesNoFileBehindWhenItFails) {
  ASSERT_EQ(Run("put a.npy").exit_code, 0);
  server_.OnCall("ReadRows", 1,
                 [] { return grpc::Status(grpc::StatusCode::INTERNAL, "the device failed"); });
  EXPECT_EQ(Run("get a -o d.npy").exit_code, 1);
  for (const auto& entry : std::filesystem::directory_iterator(Path(""))) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("d.npy")));
  }
}

TEST_F(GemmctlTest, PerfWithBOnTheServer) {
  const Outcome outcome =
      Run("perf --shapes 4x4x4,3x5x7/f64/tb --resident b --batch 3 --duration 100ms --warmup 0s "
          "--json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["link"]["road"], "resident b");
  EXPECT_GT(report["points"][0]["calls"], 0);
  EXPECT_EQ(report["points"][0]["errors"], nlohmann::json::object());
  const v1::MultiplyBatchRequest request = server_.last_batch_request();
  EXPECT_EQ(request.payloads_size(), 3);
  for (const v1::Product& product : request.products()) EXPECT_TRUE(product.b().has_matrix());
  EXPECT_EQ(Run("list").out, "");  // nothing is left behind
}

TEST_F(GemmctlTest, PerfUpload) {
  const Outcome outcome = Run("perf --upload 20MiB --channels 2 --duration 100ms --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["matrix"]["bytes"], 20 << 20);
  EXPECT_EQ(report["link"]["channels"], 2);
  for (const char* way : {"put", "get"}) {
    EXPECT_GE(report[way]["transfers"], 1);
    EXPECT_GT(report[way]["gigabytes_per_second"], 0);
    EXPECT_GE(report[way]["best_gigabytes_per_second"], report[way]["gigabytes_per_second"]);
  }
  EXPECT_EQ(Run("list").out, "");
  EXPECT_THAT(
      Run("perf --upload 1MiB --duration 50ms").out,
      AllOf(HasSubstr("64 x 4096 f32, 1.00 MiB"), HasSubstr("\n put "), HasSubstr("\n get ")));
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
  EXPECT_THAT(Run("info").out, AllOf(HasSubstr("gemmd 1.2.3 (abc), up 1s"),
                                     HasSubstr("100 B of 1000 B, kept unused for up to 1h")));
  EXPECT_EQ(nlohmann::json::parse(Run("info --json").out)["devices"][0]["name"], "fake");
  EXPECT_THAT(Run("explain 2 3 5").out,
              AllOf(HasSubstr("first on 30 (measured)"), HasSubstr("250.000 ms modelled"),
                    HasSubstr("cannot: k is odd"), HasSubstr("  can\n")));
  const Outcome json = Run("explain 2 3 5 --dtype f64 --transpose-a --batch 2 --json");
  EXPECT_EQ(nlohmann::json::parse(json.out)["reason"], "a transposed");
}

TEST_F(GemmctlTest, Help) {
  const Outcome outcome = Run("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Exit codes:"), HasSubstr("Examples:")));
  EXPECT_THAT(Run("multiply --help").out, HasSubstr("numpy.matmul"));
  for (const char* command : kCommands) {
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
  EXPECT_THAT(Complete("''"), ::testing::ElementsAreArray(kCommands));
  EXPECT_THAT(Complete("--address gpu7 ex"), ElementsAre("explain"));
  EXPECT_THAT(Complete("multiply --tr"), ElementsAre("--transpose-a", "--transpose-b"));
  EXPECT_THAT(Complete("info --ad"), ElementsAre("--address"));
  EXPECT_THAT(Complete("explain --dtype ''"), ElementsAre("f32", "f64"));
  EXPECT_THAT(Complete("explain --dtype = f6"), ElementsAre("f64"));
  EXPECT_THAT(Complete("perf --resident ''"), ElementsAre("b"));
  EXPECT_THAT(Complete("completion ''"), ElementsAre("bash"));
}

TEST_F(CompletionTest, LeavesFilesToBash) {
  EXPECT_THAT(Complete("multiply ''"), ElementsAre());
  EXPECT_THAT(Complete("multiply -o ''"), ElementsAre());
  EXPECT_THAT(Complete("--address ''"), ElementsAre());
}

TEST_F(CompletionTest, OffersEveryOptionOfTheHelp) {
  for (const char* command : kCommands) {
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
