#include "server/bench/echo_servers.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gemm/v1/gemm.grpc.pb.h"
#include "proto/bulk_message.h"
#include "proto/limits.h"
#include "server/memory/host_memory.h"
#include "server/memory/host_pool.h"
#include "server/rpc/transport.h"

namespace gemm::bench {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{8} << 30;

size_t ReplyBytes(const grpc::ServerContextBase& context) {
  const auto entry = context.client_metadata().find(kReplyBytesKey);
  size_t bytes = 0;
  if (entry == context.client_metadata().end() ||
      !absl::SimpleAtoi(absl::string_view(entry->second.data(), entry->second.size()), &bytes)) {
    std::fprintf(stderr, "rpc_floor: a call without %s\n", kReplyBytesKey);
    std::exit(1);
  }
  return bytes;
}

void BuildAndServe(grpc::ServerBuilder& builder, const std::string& address) {
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "rpc_floor: cannot listen on %s\n", address.c_str());
    std::exit(1);
  }
  const std::string host = address.substr(0, address.rfind(':'));
  const bool is_unix = absl::StartsWith(address, "unix:");
  std::printf("%s\n", is_unix ? address.c_str() : absl::StrCat(host, ":", port).c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  std::_Exit(0);
}

HostBuffer Allocate(HostPool& pool, size_t bytes) {
  absl::StatusOr<HostBuffer> buffer = pool.Allocate(bytes);
  if (!buffer.ok()) std::abort();
  return *std::move(buffer);
}

class FloorCall final : public grpc::ServerGenericBidiReactor {
 public:
  FloorCall(HostPool& pool, size_t reply_bytes) : pool_(pool), reply_bytes_(reply_bytes) {
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    const HostBuffer input = Allocate(pool_, message_.Length());
    std::vector<grpc::Slice> slices;
    message_.Dump(&slices);
    std::byte* out = input.data();
    for (const grpc::Slice& slice : slices) {
      out = std::copy_n(reinterpret_cast<const std::byte*>(slice.begin()), slice.size(), out);
    }
    slices.clear();
    message_.Clear();

    auto* const output = new HostBuffer(Allocate(pool_, reply_bytes_));
    const grpc::Slice slice(
        output->data(), output->size_bytes(),
        [](void* buffer) { delete static_cast<HostBuffer*>(buffer); }, output);
    grpc::ByteBuffer reply(&slice, 1);
    message_.Swap(&reply);
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  HostPool& pool_;
  const size_t reply_bytes_;
  grpc::ByteBuffer message_;
};

class FloorService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new FloorCall(*pool_, ReplyBytes(*context));
  }

 private:
  PageableMemory memory_;
  const std::shared_ptr<HostPool> pool_ = HostPool::Create(memory_, kPoolBytes);
};

class PlainService final
    : public v1::GemmService::WithRawCallbackMethod_Multiply<v1::GemmService::Service> {
 public:
  grpc::ServerUnaryReactor* Multiply(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) override {
    // The request's own slices, as many as make up the reply.
    std::vector<grpc::Slice> slices;
    request->Dump(&slices);
    std::vector<grpc::Slice> out;
    size_t left = ReplyBytes(*context);
    for (size_t i = 0; left > 0; i = (i + 1) % slices.size()) {
      const size_t bytes = std::min(left, slices[i].size());
      out.push_back(bytes == slices[i].size() ? slices[i] : slices[i].sub(0, bytes));
      left -= bytes;
    }
    grpc::ByteBuffer echo(out.data(), out.size());
    reply->Swap(&echo);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class StubService final : public v1::GemmService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Multiply(grpc::CallbackServerContext* context,
                                     const v1::MultiplyRequest* /*request*/,
                                     v1::MultiplyReply* reply) override {
    reply->add_payloads()->assign(ReplyBytes(*context), 'x');
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

void ServeByDefaults(grpc::Service& service, const std::string& address) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  BuildAndServe(builder, address);
}

}  // namespace

void ServeFloor(const std::string& address) {
  FloorService service;
  grpc::ServerBuilder builder;
  SetTransport(kMaxMessageBytes, builder);
  builder.RegisterCallbackGenericService(&service);
  BuildAndServe(builder, address);
}

void ServePlainEcho(const std::string& address) {
  PlainService service;
  ServeByDefaults(service, address);
}

void ServeStubs(const std::string& address) {
  StubService service;
  ServeByDefaults(service, address);
}

}  // namespace gemm::bench
