// GemmService.GetServerInfo: version, devices, kernels and limits.

#ifndef GEMMD_SERVER_RPC_INFO_CALL_H_
#define GEMMD_SERVER_RPC_INFO_CALL_H_

#include "gemm/v1/gemm.pb.h"
#include "server/rpc/call.h"

namespace gemm {

class InfoCall final : public Call {
 public:
  InfoCall(RpcContext& context, CallStream& stream);

 private:
  void OnMessage() override;
};

v1::GetServerInfoReply MakeServerInfo(const RpcContext& context);

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_INFO_CALL_H_
