#include "server/bench/contender.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "gemmd/tune_process.h"
#include "proto/tune_process.h"
#include "server/bench/callers.h"
#include "server/bench/echo_servers.h"

namespace gemm::bench {
namespace {

std::unique_ptr<Caller> MakeCaller(const std::string& kind, const std::string& address,
                                   const BenchCase& bench_case) {
  if (kind == "floor") return MakeFloorCaller(address, bench_case, /*callback=*/false);
  if (kind == "floor, woken") return MakeFloorCaller(address, bench_case, /*callback=*/true);
  if (kind == "plain echo") return MakePlainCaller(address, bench_case);
  if (kind == "stubs") return MakeStubCaller(address, bench_case);
  return MakeProductCaller(address, bench_case);
}

Sample CallInParallel(const std::vector<std::unique_ptr<Caller>>& callers, int calls) {
  std::vector<Sample> parts(callers.size());
  std::vector<std::thread> threads;
  const absl::Time start = absl::Now();
  for (size_t i = 0; i < callers.size(); ++i) {
    threads.emplace_back([calls, &caller = *callers[i], &part = parts[i]] {
      for (int call = 0; call < calls; ++call) {
        const absl::Time called = absl::Now();
        const absl::Duration device = caller.Call();
        part.call_us.push_back(absl::ToDoubleMicroseconds(absl::Now() - called));
        part.device_us.push_back(absl::ToDoubleMicroseconds(device));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Sample whole;
  whole.wall_s = absl::ToDoubleSeconds(absl::Now() - start);
  for (const Sample& part : parts) {
    whole.call_us.insert(whole.call_us.end(), part.call_us.begin(), part.call_us.end());
    whole.device_us.insert(whole.device_us.end(), part.device_us.begin(), part.device_us.end());
  }
  return whole;
}

// Answers each line "m n k channels calls" with a sample.
void AnswerWithSamples(const std::string& kind, const std::string& address) {
  BenchCase current;
  std::vector<std::unique_ptr<Caller>> callers;
  BenchCase asked;
  int calls = 0;
  while (std::cin >> asked.m >> asked.n >> asked.k >> asked.channels >> calls) {
    if (asked != current) {
      callers.clear();
      for (int i = 0; i < asked.channels; ++i) callers.push_back(MakeCaller(kind, address, asked));
      current = asked;
    }
    const Sample sample = CallInParallel(callers, calls);
    std::cout << nlohmann::json({{"wall_s", sample.wall_s},
                                 {"call_us", sample.call_us},
                                 {"device_us", sample.device_us}})
              << std::endl;
  }
}

// For the threads that begin after it.
void EnterNetworkNamespace(const std::string& name) {
  const int fd = open(absl::StrCat("/run/netns/", name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    std::cerr << "rpc_floor: cannot enter the network namespace " << name << ": "
              << std::strerror(errno) << "\n";
    std::exit(1);
  }
  close(fd);
}

}  // namespace

Contender::Contender(const ContenderKind& kind, const ServerPlace& place) : kind_(kind) {
  const std::string tuned = kind.tuned ? "tuned" : "untuned";
  std::string address = kind.gemmd_address;
  if (address.empty()) {
    const std::string listen = place.unix_folder.empty()
                                   ? absl::StrCat(place.host, ":0")
                                   : absl::StrCat("unix:", place.unix_folder, "/",
                                                  absl::StrReplaceAll(kind.name, {{" ", "_"}}));
    server_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"serve", tuned, kind.name, listen, place.network_namespace});
    address = server_->ReadLine();
  }
  const std::string client = kind.tuned && kind.polling_client ? "polling" : tuned;
  client_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{"call", client, kind.name, address, ""});
}

Sample Contender::Measure(const BenchCase& bench_case, int calls_per_channel) {
  client_->WriteLine(absl::StrCat(bench_case.m, " ", bench_case.n, " ", bench_case.k, " ",
                                  bench_case.channels, " ", calls_per_channel));
  const nlohmann::json sample = nlohmann::json::parse(client_->ReadLine());
  return {sample["wall_s"], sample["call_us"], sample["device_us"]};
}

int RunChild(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) return 2;
  if (!arguments[4].empty()) EnterNetworkNamespace(arguments[4]);
  const std::string& kind = arguments[2];
  const std::string& address = arguments[3];
  const bool is_client = arguments[0] == "call";
  if (arguments[1] == "polling") setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0);
  if (arguments[1] != "untuned") is_client ? TuneClientProcess() : TuneServerProcess();
  if (is_client) {
    AnswerWithSamples(kind, address);
  } else if (kind == "floor" || kind == "floor, woken") {
    ServeFloor(address);
  } else if (kind == "plain echo") {
    ServePlainEcho(address);
  } else {
    ServeStubs(address);
  }
  return 0;
}

}  // namespace gemm::bench
