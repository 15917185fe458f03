// A channel to one server and unary calls of raw bytes over it.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_CONNECTION_H_
#define GEMMD_CLIENT_CPP_INTERNAL_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gemmd/client.h"

namespace gemm::client {

// Thread-safe.
class Connection {
 public:
  explicit Connection(const ClientOptions& options);

  // One attempt; blocks. `method` is "/package.Service/Method". The call's context is gone when
  // this returns, so memory that `request` borrows comes back soon after `request` dies.
  absl::StatusOr<grpc::ByteBuffer> Call(const std::string& method, const grpc::ByteBuffer& request,
                                        absl::Time deadline);

 private:
  const std::string address_;
  const bool use_http_proxy_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_CONNECTION_H_
