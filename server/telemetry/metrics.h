// Every metric of the server, resolved when it starts: recording one is a few atomic operations and
// takes no lock that another thread holds for long.

#ifndef GEMMD_SERVER_TELEMETRY_METRICS_H_
#define GEMMD_SERVER_TELEMETRY_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/reason.h"

namespace prometheus {
class Collectable;
}

namespace gemm {

enum class RpcMethod {
  kMultiply,
  kMultiplyBatch,
  kCreateMatrix,
  kWriteRows,
  kReadRows,
  kGetMatrix,
  kListMatrices,
  kDeleteMatrix,
  kExplain,
  kGetServerInfo,
  kHealthCheck,
  kHealthWatch,
  kUnknown
};
inline constexpr int kRpcMethodCount = 13;

std::string_view NameOf(RpcMethod method);  // "Multiply"

// The life of a Multiply, in order; names as in ExecutionReport of gemm.proto, then the reply.
enum class Phase { kAdmit, kReceive, kDecode, kQueue, kCopyIn, kCompute, kCopyOut, kSend };
inline constexpr int kPhaseCount = 8;

std::string_view NameOf(Phase phase);  // "copy_in"

enum class Direction { kIn, kOut };
// How a matrix's elements came to be where they are used: in the call's message, or there already.
enum class Road { kInline, kResident };

std::string_view GrpcCodeName(int grpc_code);  // "UNAVAILABLE"; "UNKNOWN" for one gRPC has not

struct MetricsOptions {
  std::string version;
  std::string commit;
  std::vector<std::string> kernel_families;  // label values of launches, exported as zeros at start
  std::vector<DeviceDescription> devices;
};

// Thread-safe.
class Metrics final : public EngineObserver {
 public:
  explicit Metrics(const MetricsOptions& options);
  ~Metrics() override;

  void CallStarted(RpcMethod method);
  // `grpc_code` as on the wire; `duration` from the call's headers to its end.
  void CallHandled(RpcMethod method, int grpc_code, absl::Duration duration);
  void ObservePhase(Phase phase, absl::Duration duration);
  // Of operands and of rows, in, or of results and of rows, out.
  void AddBytes(Direction direction, uint64_t bytes, Road road = Road::kInline);
  void CountRefused(Reason reason);  // never queued

  // EngineObserver: batches, launches, FLOPs, engine phases, drops, device state.
  void OnBatch(const Batch& batch) override;
  void OnDropped(const Job& job, const absl::Status& status) override;
  void OnDeviceLost(const DeviceDescription& device) override;

  // Values read when scraped: what waits and what runs, budgets. The functions must stay callable
  // until RemoveGauges.
  struct Gauges {
    std::function<double()> queue_problems;
    std::function<double()> queue_bytes;
    std::function<double()> queue_flops;
    std::function<double()> running_problems;
    std::function<double()> host_memory_used_bytes;
    std::function<double()> host_memory_reserved_bytes;  // used and kept for reuse
    std::function<double()> host_memory_budget_bytes;
    std::function<double()> device_memory_used_bytes;
    std::function<double()> device_memory_budget_bytes;
    std::function<double()> matrix_memory_used_bytes;
    std::function<double()> matrix_memory_budget_bytes;
    std::function<double()> matrices;
    std::function<double()> admitted_bytes;
    std::function<double()> admission_budget_bytes;
  };
  void SetGauges(Gauges gauges);
  void RemoveGauges();

  // What makes up the metrics page.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_TELEMETRY_METRICS_H_
