#include "server/rpc/health.h"

#include "server/reason.h"

namespace gemm {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

bool IsOurs(const std::string& service) {
  return service.empty() || service == "gemm.v1.GemmService";
}

}  // namespace

HealthState::ServingStatus HealthState::Current() const {
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthState::SetServing(bool serving) {
  std::lock_guard lock(mutex_);
  serving_ = serving;
  for (auto [watcher, ours] : watchers_) {
    if (ours) watcher->Update(Current());
  }
}

void HealthState::EndWatches() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  for (auto [watcher, ours] : watchers_) {
    watcher->EndWatch(ErrorWithReason(Reason::kDraining, "the server is shutting down"));
  }
  watchers_.clear();
}

HealthState::ServingStatus HealthState::StatusOf(const std::string& service) const {
  if (!IsOurs(service)) return HealthCheckResponse::SERVICE_UNKNOWN;
  std::lock_guard lock(mutex_);
  return Current();
}

bool HealthState::Add(HealthWatchCall* watcher, const std::string& service) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  const bool ours = IsOurs(service);
  watchers_[watcher] = ours;
  // For an unknown service the protocol keeps the stream open, in case it appears.
  watcher->Update(ours ? Current() : HealthCheckResponse::SERVICE_UNKNOWN);
  return true;
}

bool HealthState::Remove(HealthWatchCall* watcher) {
  std::lock_guard lock(mutex_);
  return watchers_.erase(watcher) > 0;
}

HealthCheckCall::HealthCheckCall(RpcContext& context, CallStream& stream)
    : Call(context, stream, RpcMethod::kHealthCheck, context.control_admission,
           kControlMessageBytes) {}

void HealthCheckCall::OnMessage() {
  HealthCheckRequest request;
  if (!ParseMessage(request)) return;
  const HealthState::ServingStatus status = context().health.StatusOf(request.service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return Fail(absl::NotFoundError("service: not one of this server"));
  }
  HealthCheckResponse response;
  response.set_status(status);
  Reply(response);
}

HealthWatchCall::HealthWatchCall(RpcContext& context, CallStream& stream)
    : Call(context, stream, RpcMethod::kHealthWatch, context.control_admission,
           kControlMessageBytes) {}

void HealthWatchCall::OnMessage() {
  HealthCheckRequest request;
  if (!ParseMessage(request)) return;
  ReleaseMessage();  // a watch may last for days
  if (!context().health.Add(this, request.service())) {
    return Fail(ErrorWithReason(Reason::kDraining, "the server is shutting down"));
  }
  if (caller_gone_) StopWatching();  // while there was nothing to stop yet
}

void HealthWatchCall::Update(HealthState::ServingStatus status) {
  std::lock_guard lock(mutex_);
  latest_ = status;
  WriteIfChanged();
}

void HealthWatchCall::WriteIfChanged() {
  if (writing_ || end_ || latest_ == sent_) return;
  HealthCheckResponse response;
  response.set_status(latest_);
  grpc::Slice slice(response.SerializeAsString());
  const grpc::ByteBuffer update(&slice, 1);
  sent_ = latest_;
  writing_ = true;
  stream().Write(update);
}

void HealthWatchCall::OnWriteDone(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (ok) WriteIfChanged();
  FinishIfIdle(lock);
}

void HealthWatchCall::OnCallerGone() {
  caller_gone_ = true;
  StopWatching();
}

void HealthWatchCall::StopWatching() {
  if (context().health.Remove(this)) {
    EndWatch(ErrorWithReason(Reason::kCallerGone, "the caller has gone"));
  }
}

void HealthWatchCall::EndWatch(const absl::Status& status) {
  std::unique_lock lock(mutex_);
  end_ = status;
  FinishIfIdle(lock);
}

void HealthWatchCall::FinishIfIdle(std::unique_lock<std::mutex>& lock) {
  if (!end_ || writing_) return;
  const absl::Status end = *end_;
  lock.unlock();  // Fail may delete this, and the mutex with it
  Fail(end);
}

}  // namespace gemm
