// GemmService.Multiply: decode into page-locked memory, queue, reply from page-locked memory.

#ifndef GEMMD_SERVER_RPC_MULTIPLY_CALL_H_
#define GEMMD_SERVER_RPC_MULTIPLY_CALL_H_

#include <memory>

#include "server/engine/job.h"
#include "server/rpc/call.h"

namespace gemm {

class MultiplyCall final : public Call {
 public:
  MultiplyCall(RpcContext& context, grpc::GenericCallbackServerContext& grpc_context);

 private:
  ~MultiplyCall() override;
  void OnMessage() override;
  void OnCallerGone() override { context().engine.Cancel(*cancel_); }

  void Decode();
  absl::StatusOr<std::unique_ptr<Job>> MakeJob();
  // With the job when it ran, without it when it was refused before.
  void OnProduct(const absl::Status& status, std::unique_ptr<Job> job);
  grpc::ByteBuffer MakeReply(Job& job);
  void Log(const absl::Status& status, const Job* job) const;

  bool refused_ = false;  // constant after the constructor; then it is not counted as in flight
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  std::string request_id_;
  absl::Duration decode_ = absl::ZeroDuration();
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_MULTIPLY_CALL_H_
