// GemmService.Explain: which kernel would run a product, and why each other would not.

#ifndef GEMMD_SERVER_RPC_EXPLAIN_CALL_H_
#define GEMMD_SERVER_RPC_EXPLAIN_CALL_H_

#include "server/rpc/call.h"

namespace gemm {

class ExplainCall final : public Call {
 public:
  ExplainCall(RpcContext& context, CallStream& stream);

 private:
  void OnMessage() override;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_EXPLAIN_CALL_H_
