#include "server/rpc/info_call.h"

#include "server/engine/clock.h"

namespace gemm {

InfoCall::InfoCall(RpcContext& context, CallStream& stream)
    : Call(context, stream, RpcMethod::kGetServerInfo, context.control_admission,
           kControlMessageBytes) {}

void InfoCall::OnMessage() {
  v1::GetServerInfoRequest request;
  if (ParseMessage(request)) Reply(MakeServerInfo(context()));
}

v1::GetServerInfoReply MakeServerInfo(const RpcContext& context) {
  v1::GetServerInfoReply reply;
  reply.set_version(context.options.version);
  reply.set_commit(context.options.commit);
  for (const auto& device : context.engine.devices()) {
    const DeviceDescription& description = device->description();
    v1::GetServerInfoReply::Device* out = reply.add_devices();
    out->set_index(description.index);
    out->set_name(description.name);
    out->set_uuid(description.uuid);
    out->set_kind(description.kind);
    out->set_compute_capability(description.compute_capability);
    out->set_multiprocessors(description.multiprocessors);
    out->set_memory_bytes(description.memory_bytes);
    out->set_healthy(!device->lost());
  }
  for (const std::string& kernel : context.engine.devices().front()->kernel_names()) {
    reply.add_kernels(kernel);
  }
  reply.add_data_types(v1::DATA_TYPE_F32);
  reply.add_data_types(v1::DATA_TYPE_F64);
  reply.set_message_limit_bytes(context.options.message_limit_bytes);
  reply.set_matrix_memory_bytes(context.matrices.budget_bytes());
  reply.set_matrix_memory_used_bytes(context.matrices.used_bytes());
  reply.set_time_to_live_limit_ns(
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(context.options.matrix_ttl_limit)));
  reply.set_uptime_ns(
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(SteadyNow() - context.started)));
  return reply;
}

}  // namespace gemm
