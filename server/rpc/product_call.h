// The calls that multiply, Multiply and MultiplyBatch: decode into page-locked memory, queue, reply
// from page-locked memory.

#ifndef GEMMD_SERVER_RPC_PRODUCT_CALL_H_
#define GEMMD_SERVER_RPC_PRODUCT_CALL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/job.h"
#include "server/memory/matrix_store.h"
#include "server/rpc/call.h"
#include "server/rpc/decode.h"
#include "server/rpc/reply.h"

namespace gemm {

// What is a method's own.
struct ProductMethod {
  RpcMethod method;
  decltype(&DecodeMultiply) decode;
  decltype(&MakeMultiplyReply) make_reply;
  // Up to here a request is decoded by the thread that has read it. Another one, on another core,
  // has to be woken up and finds none of the message in its caches; meanwhile other connections of
  // the queue wait, for a millisecond or so.
  size_t decode_inline_bytes;
};

inline constexpr ProductMethod kMultiplyMethod = {RpcMethod::kMultiply, DecodeMultiply,
                                                  MakeMultiplyReply, size_t{5} << 20};
// Thousands of products take long to check.
inline constexpr ProductMethod kMultiplyBatchMethod = {
    RpcMethod::kMultiplyBatch, DecodeMultiplyBatch, MakeMultiplyBatchReply, size_t{256} << 10};

class ProductCall final : public Call {
 public:
  // `method` is one of the above.
  ProductCall(RpcContext& context, CallStream& stream, const ProductMethod& method);

 private:
  ~ProductCall() override = default;
  void OnStart() override { Open(place_); }
  void OnMessage() override;
  void OnCallerGone() override { context().engine.Cancel(*cancel_); }
  void OnTurn() override { OnJobDone(std::move(ended_.status), std::move(ended_.job)); }

  void Decode();
  absl::StatusOr<std::unique_ptr<Job>> MakeJob();
  // Makes the matrices for the results that stay, on the job's device.
  void MakeResults(const std::vector<DecodedResult>& results, Job& job);
  // Seals those whose products have succeeded; forgets the others.
  KeptResults KeepResults(Job& job);
  void CountBytes(const Job& job);
  // With the job when it was submitted, without it when it was refused before.
  void OnJobDone(absl::Status status, std::unique_ptr<Job> job);
  void Log(const absl::Status& status, const Job* job) const;
  void Describe(const Job* job, CallRecord& record) const;

  const ProductMethod& method_;
  const InFlightPlace place_;
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  std::string request_id_;
  std::vector<std::pair<size_t, MatrixWrite>> results_;  // by index of the product
  absl::Duration decode_ = absl::ZeroDuration();
  struct {
    absl::Status status;
    std::unique_ptr<Job> job;
  } ended_;  // and waits for its turn to reply
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_PRODUCT_CALL_H_
