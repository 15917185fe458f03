// The clients' ends: each makes one kind of call, over and over, on a connection of its own.

#ifndef GEMMD_SERVER_BENCH_CALLERS_H_
#define GEMMD_SERVER_BENCH_CALLERS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/bench/bench_case.h"

namespace gemm::bench {

class Caller {
 public:
  virtual ~Caller() = default;

  // One call, from operands in the caller's memory to a result there; ends the process when it
  // fails. Returns the part of its time that the server spent on its device, where it tells.
  virtual absl::Duration Call() = 0;
};

// Raw bytes out of the caller's memory and, by one copy, into it, through a connection set up as
// the C++ client's. `callback`: the reply is awaited by a thread of gRPC's, as in the C++ client,
// rather than by the caller's own.
std::unique_ptr<Caller> MakeFloorCaller(const std::string& address, const BenchCase& bench_case,
                                        bool callback);

// Raw bytes on gRPC's defaults; the reply is left in its slices.
std::unique_ptr<Caller> MakePlainCaller(const std::string& address, const BenchCase& bench_case);

// Generated stubs on gRPC's defaults; the request is made once, the reply left in its message.
std::unique_ptr<Caller> MakeStubCaller(const std::string& address, const BenchCase& bench_case);

// Products, through the C++ client.
std::unique_ptr<Caller> MakeProductCaller(const std::string& address, const BenchCase& bench_case);

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_CALLERS_H_
