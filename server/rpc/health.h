// grpc.health.v1.Health. Our own, because gRPC's default one keeps a server from shutting down
// while somebody watches, and because every call passes one gate.

#ifndef GEMMD_SERVER_RPC_HEALTH_H_
#define GEMMD_SERVER_RPC_HEALTH_H_

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "grpc/health/v1/health.pb.h"
#include "server/rpc/call.h"

namespace gemm {

class HealthWatchCall;

// What health answers, and who is watching. Thread-safe.
class HealthState {
 public:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  void SetServing(bool serving);
  // Ends every watch, and every later one at once.
  void EndWatches();

  // SERVICE_UNKNOWN for a service that is not ours.
  ServingStatus StatusOf(const std::string& service) const;

 private:
  friend class HealthWatchCall;
  // From Add until Remove returns, the watcher is told of changes. False: watches have ended.
  bool Add(HealthWatchCall* watcher, const std::string& service);
  // False: it is not, or no longer, among the watchers. Whoever takes a watcher out ends it, so
  // that each ends once.
  bool Remove(HealthWatchCall* watcher);

  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  bool serving_ = false;
  bool ended_ = false;
  // The value: whether the service is ours, so that its state can change.
  std::map<HealthWatchCall*, bool> watchers_;

  ServingStatus Current() const;  // requires mutex_
};

class HealthCheckCall final : public Call {
 public:
  HealthCheckCall(RpcContext& context, CallStream& stream);

 private:
  void OnMessage() override;
};

// Sends the state whenever it differs from what was sent last; a slow reader misses states between.
class HealthWatchCall final : public Call {
 public:
  HealthWatchCall(RpcContext& context, CallStream& stream);

  void OnWriteDone(bool ok) override;

 private:
  friend class HealthState;
  void OnMessage() override;
  void OnCallerGone() override;
  // Called by HealthState, with its lock held.
  void Update(HealthState::ServingStatus status);
  // Called once, by who has taken this out of the watchers.
  void EndWatch(const absl::Status& status);

  void StopWatching();
  void WriteIfChanged();  // requires mutex_
  // Takes the lock on mutex_ and lets go of it before the end of the call, which may delete this.
  void FinishIfIdle(std::unique_lock<std::mutex>& lock);

  std::atomic<bool> caller_gone_{false};

  std::mutex mutex_;
  // State below is protected by mutex_.
  HealthState::ServingStatus latest_ = grpc::health::v1::HealthCheckResponse::UNKNOWN;
  HealthState::ServingStatus sent_ = grpc::health::v1::HealthCheckResponse::UNKNOWN;
  bool writing_ = false;
  std::optional<absl::Status> end_;  // set: ends with this once nothing is being written
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_HEALTH_H_
