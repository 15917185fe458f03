#include "tests/client/local_server.h"

#include <utility>

#include "server/open_devices.h"
#include "server/server.h"

namespace gemm::testing {

struct LocalServer::Impl {
  std::unique_ptr<Server> server;
};

LocalServer::LocalServer() : impl_(std::make_unique<Impl>()) {
  Options options;
  options.listen = "127.0.0.1:0";
  options.metrics_listen = "";
  options.device = DeviceChoice::kCpu;
  auto devices = OpenDevices(options);
  auto server = Server::Start(options, *std::move(devices));
  impl_->server = *std::move(server);
}

LocalServer::~LocalServer() = default;

std::string LocalServer::address() const { return impl_->server->grpc_address(); }

}  // namespace gemm::testing
