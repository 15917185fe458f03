// A slice of gRPC over a host buffer.

#ifndef GEMMD_SERVER_RPC_BUFFER_SLICE_H_
#define GEMMD_SERVER_RPC_BUFFER_SLICE_H_

#include <grpcpp/support/slice.h>

#include <utility>

#include "server/memory/host_pool.h"

namespace gemm {

// gRPC sends from the buffer itself and gives it back to its pool when it lets go of it.
inline grpc::Slice SliceOver(HostBuffer buffer) {
  if (buffer.empty()) return {};
  auto* held = new HostBuffer(std::move(buffer));
  return grpc::Slice(
      held->data(), held->size_bytes(), [](void* owner) { delete static_cast<HostBuffer*>(owner); },
      held);
}

}  // namespace gemm

#endif  // GEMMD_SERVER_RPC_BUFFER_SLICE_H_
