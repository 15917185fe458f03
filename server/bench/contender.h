// One way of answering calls, with its server and its client each in a process of its own, since
// the allocator and gRPC's experiments are set up once a process.

#ifndef GEMMD_SERVER_BENCH_CONTENDER_H_
#define GEMMD_SERVER_BENCH_CONTENDER_H_

#include <memory>
#include <string>
#include <vector>

#include "server/bench/bench_case.h"
#include "server/bench/child_process.h"

namespace gemm::bench {

// Of some calls in a row from each of the case's channels.
struct Sample {
  double wall_s = 0;
  std::vector<double> call_us;
  std::vector<double> device_us;  // of each call, 0 where the server has no device
};

struct ContenderKind {
  std::string name;
  bool tuned = false;           // its processes are set up as gemmd's and its clients'
  bool polling_client = false;  // a tuned client's threads poll their own connections alone
  std::string gemmd_address{};  // not empty: a gemmd that runs there already
};

// Where the servers are that are started.
struct ServerPlace {
  std::string unix_folder{};        // not empty: UNIX sockets in that folder rather than TCP
  std::string host = "127.0.0.1";   // to listen on
  std::string network_namespace{};  // not empty: one of `ip netns`
};

class Contender {
 public:
  // Starts what is to run.
  Contender(const ContenderKind& kind, const ServerPlace& place);

  const std::string& name() const { return kind_.name; }
  Sample Measure(const BenchCase& bench_case, int calls_per_channel);

 private:
  const ContenderKind kind_;
  std::unique_ptr<ChildProcess> server_;
  std::unique_ptr<ChildProcess> client_;
};

// What such a process does after `--child`; returns its exit status.
int RunChild(const std::vector<std::string>& arguments);

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_CONTENDER_H_
