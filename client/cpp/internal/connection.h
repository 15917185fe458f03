// A channel to one server and unary calls of raw bytes over it.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_CONNECTION_H_
#define GEMMD_CLIENT_CPP_INTERNAL_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/internal/polled_queue.h"
#include "gemmd/client.h"

namespace gemm::client {

// How the client's channels are set up.
grpc::ChannelArguments MakeChannelArguments(const ClientOptions& options);

// Thread-safe.
class Connection {
 public:
  explicit Connection(const ClientOptions& options);

  // One attempt; returns at once. `method` is "/package.Service/Method". `done` is called once, as
  // a step of `queue`, or if there is none on a thread of gRPC's or this one; context, request and
  // reply live until then.
  void Call(grpc::ClientContext& context, const std::string& method,
            const grpc::ByteBuffer& request, grpc::ByteBuffer& reply,
            std::function<void(const absl::Status&)> done, PolledQueue* queue = nullptr) const;

 private:
  absl::Status ToStatus(const grpc::Status& status, const std::string& method,
                        absl::Time start) const;

  const std::string address_;
  const bool use_http_proxy_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_CONNECTION_H_
