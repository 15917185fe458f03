#include "server/rpc/explain_call.h"

#include <utility>

#include "gemm/v1/gemm.pb.h"
#include "server/reason.h"
#include "server/rpc/decode.h"

namespace gemm {

ExplainCall::ExplainCall(RpcContext& context, CallStream& stream)
    : Call(context, stream, RpcMethod::kExplain, context.control_admission, kControlMessageBytes) {}

void ExplainCall::OnMessage() {
  v1::ExplainRequest request;
  if (!ParseMessage(request)) return;
  if (!request.has_product()) {
    return Fail(ErrorWithReason(Reason::kInvalidRequest, "product: is missing", "product"));
  }
  const absl::StatusOr<Problem> problem =
      DecodeProduct(request.product(), /*operands_optional=*/true);
  if (!problem.ok()) return Fail(problem.status());

  v1::ExplainReply reply;
  reply.set_device(context().engine.devices().front()->description().name);
  if (IsEmpty(*problem)) {
    reply.set_reason("the result is empty: nothing has to run");
    return Reply(reply);
  }
  KernelExplanation explanation = context().engine.Explain(*problem);
  reply.set_chosen(std::move(explanation.chosen));
  reply.set_reason(std::move(explanation.reason));
  for (KernelVerdict& verdict : explanation.candidates) {
    v1::ExplainReply::Candidate* candidate = reply.add_candidates();
    candidate->set_kernel(std::move(verdict.kernel));
    candidate->set_why_not(std::move(verdict.why_not));
    candidate->set_modelled_seconds(verdict.modelled_seconds);
  }
  Reply(reply);
}

}  // namespace gemm
