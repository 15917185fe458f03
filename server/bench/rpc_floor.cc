// rpc_floor: how near gemmd's calls come to the least that such calls can cost on this machine.

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/bench/comparison.h"
#include "server/bench/contender.h"

namespace gemm::bench {
namespace {

constexpr char kFooter[] = R"(
A case is written MxNxK or MxNxK@CHANNELS: an f32 product's request and reply are as large as its
matrices. Every contender is measured in every round, one after another, and ratios are taken round
by round. Contenders, each with server and client in processes of their own:

  floor       gemmd's connections, process set-up and pool; one copy at each end and nothing else
  , woken     the same, but a thread of gRPC's waits for the reply and wakes the caller
  plain echo  a ByteBuffer handler on gRPC's defaults that sends the request's slices back
  stubs       a handler on the generated protobuf classes, on gRPC's defaults
  gemmd       products of a gemmd that runs already, through the C++ client (--gemmd)

"-device" leaves out what the server says it spent on copies to its device, computing and copies
back.)";

struct Flags {
  std::vector<std::string> cases = {"64x64x64", "4194304x1x1", "1x1x2097152@1", "1x1x2097152@8"};
  std::vector<std::string> gemmds;
  bool untuned_clients = false;
  bool polling_clients = false;
  bool floor_only = false;
  bool unix_sockets = false;
  ServerPlace place;
  int rounds = 7;
  double round_seconds = 0.4;
  std::string json;
};

bool ParseCase(const std::string& text, BenchCase& bench_case) {
  const std::vector<std::string> at = absl::StrSplit(text, '@');
  const std::vector<std::string> shape = absl::StrSplit(at.front(), 'x');
  return at.size() <= 2 && shape.size() == 3 && absl::SimpleAtoi(shape[0], &bench_case.m) &&
         absl::SimpleAtoi(shape[1], &bench_case.n) && absl::SimpleAtoi(shape[2], &bench_case.k) &&
         (at.size() == 1 || absl::SimpleAtoi(at[1], &bench_case.channels)) && bench_case.m > 0 &&
         bench_case.n > 0 && bench_case.k > 0 && bench_case.channels > 0;
}

std::vector<ContenderKind> ContenderKinds(const Flags& flags) {
  std::vector<ContenderKind> kinds = {{.name = "floor", .tuned = true}};
  kinds.push_back({.name = "floor, woken", .tuned = true});
  if (!flags.floor_only) {
    kinds.push_back({.name = "plain echo"});
    kinds.push_back({.name = "stubs"});
  }
  for (const std::string& gemmd : flags.gemmds) {
    const size_t equals = gemmd.find('=');
    const std::string name = equals == std::string::npos ? "gemmd" : gemmd.substr(0, equals);
    const std::string address = gemmd.substr(equals == std::string::npos ? 0 : equals + 1);
    kinds.push_back({.name = name, .tuned = true, .gemmd_address = address});
    if (flags.untuned_clients) {
      kinds.push_back({.name = name + ", untuned client", .gemmd_address = address});
    }
  }
  for (ContenderKind& kind : kinds) kind.polling_client = flags.polling_clients;
  return kinds;
}

// So that a round of the slowest contender takes about as long as asked.
int CallsOfRound(const BenchCase& bench_case, std::vector<Contender>& contenders, double seconds) {
  double slowest_s = 0;
  for (Contender& contender : contenders) {
    contender.Measure(bench_case, 3);  // connects, and fills the pools
    slowest_s = std::max(slowest_s, contender.Measure(bench_case, 3).wall_s / 3);
  }
  return std::clamp(static_cast<int>(seconds / slowest_s), 3, 5000);
}

std::vector<Row> MeasureCase(const BenchCase& bench_case, const Flags& flags,
                             std::vector<Contender>& contenders) {
  const int calls = CallsOfRound(bench_case, contenders, flags.round_seconds);
  std::vector<std::vector<Sample>> rounds;
  for (int i = 0; i < flags.rounds; ++i) {
    std::vector<Sample>& round = rounds.emplace_back(contenders.size());
    for (size_t j = 0; j < contenders.size(); ++j) {
      const size_t turn = (i + j) % contenders.size();  // nobody always follows the same one
      contenders[turn].Measure(bench_case, 1);          // wakes its processes up
      round[turn] = contenders[turn].Measure(bench_case, calls);
    }
  }
  std::vector<std::string> names;
  names.reserve(contenders.size());
  for (const Contender& contender : contenders) names.push_back(contender.name());
  return Compare(bench_case, names, rounds);
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--child") return RunChild({argv + 2, argv + argc});

  Flags flags;
  CLI::App app("Measures gemmd's calls beside the floor of what they can cost.", "rpc_floor");
  app.footer(kFooter);
  app.add_option("cases", flags.cases, "What to measure")->capture_default_str();
  app.add_option("--gemmd", flags.gemmds, "[NAME=]ADDRESS of a gemmd; may be repeated");
  app.add_flag("--untuned-clients", flags.untuned_clients,
               "Each gemmd also through a client whose process is as it was started");
  app.add_flag("--polling-clients", flags.polling_clients,
               "The floor's and each gemmd's clients with GRPC_POLL_STRATEGY=poll");
  app.add_flag("--floor-only", flags.floor_only, "Leave plain echo and stubs out");
  app.add_flag("--unix", flags.unix_sockets, "UNIX sockets for all but gemmd");
  app.add_option("--server-host", flags.place.host, "IPv4 address that the servers listen on")
      ->capture_default_str();
  app.add_option("--server-netns", flags.place.network_namespace,
                 "Network namespace that the servers run in (ip netns; needs root)");
  app.add_option("--rounds", flags.rounds, "Turns of each contender")->capture_default_str();
  app.add_option("--round-seconds", flags.round_seconds, "About how long a turn takes")
      ->capture_default_str();
  app.add_option("--json", flags.json, "File to append a line to for each row");
  CLI11_PARSE(app, argc, argv);

  std::vector<BenchCase> cases(flags.cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!ParseCase(flags.cases[i], cases[i])) {
      std::fprintf(stderr, "rpc_floor: %s is not MxNxK[@CHANNELS]\n", flags.cases[i].c_str());
      return 2;
    }
  }
  ServerPlace& place = flags.place;
  if (flags.unix_sockets) {
    char folder[] = "/tmp/rpc_floor.XXXXXX";
    if (mkdtemp(folder) == nullptr) return 1;
    place.unix_folder = folder;
  }
  std::vector<Contender> contenders;
  for (const ContenderKind& kind : ContenderKinds(flags)) contenders.emplace_back(kind, place);

  std::ofstream json(flags.json, std::ios::app);
  const std::string date = absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone());
  for (const BenchCase& bench_case : cases) {
    const std::vector<Row> rows = MeasureCase(bench_case, flags, contenders);
    std::fputs(ToTable(bench_case, rows).c_str(), stdout);
    std::fflush(stdout);
    for (const Row& row : rows) {
      nlohmann::json line = ToJson(bench_case, row);
      line["date"] = date;
      line["cores"] = std::thread::hardware_concurrency();
      line["unix"] = flags.unix_sockets;
      if (json) json << line << std::endl;
    }
  }
  contenders.clear();
  if (!place.unix_folder.empty()) std::filesystem::remove_all(place.unix_folder);
  return 0;
}

}  // namespace
}  // namespace gemm::bench

int main(int argc, char** argv) {
  try {
    return gemm::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rpc_floor: %s\n", error.what());
    return 1;
  }
}
