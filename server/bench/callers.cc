#include "server/bench/callers.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/internal/connection.h"
#include "gemm/v1/gemm.grpc.pb.h"
#include "gemmd/client.h"
#include "server/bench/echo_servers.h"

namespace gemm::bench {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "rpc_floor: %s\n", what.c_str());
  std::exit(1);
}

void SetUp(grpc::ClientContext& context, const BenchCase& bench_case) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTimeout));
  context.AddMetadata(kReplyBytesKey, absl::StrCat(bench_case.down_bytes()));
}

class RawCaller final : public Caller {
 public:
  RawCaller(std::shared_ptr<grpc::Channel> channel, const BenchCase& bench_case, bool copy_out,
            bool callback = false)
      : bench_case_(bench_case),
        callback_(callback),
        request_(bench_case.up_bytes(), 'a'),
        result_(copy_out ? bench_case.down_bytes() : 0),
        stub_(std::move(channel)) {}

  absl::Duration Call() override {
    grpc::ClientContext context;
    SetUp(context, bench_case_);
    const grpc::Slice slice(request_.data(), request_.size(), grpc::Slice::STATIC_SLICE);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer reply;
    const grpc::Status status =
        callback_ ? CallAndBeWoken(context, request, reply) : CallAndPoll(context, request, reply);
    if (!status.ok()) Fail(status.error_message());
    if (reply.Length() != bench_case_.down_bytes()) Fail("a reply of the wrong size");
    if (!result_.empty()) CopyOut(reply);
    return absl::ZeroDuration();
  }

 private:
  // This thread itself waits for the connection's bytes.
  grpc::Status CallAndPoll(grpc::ClientContext& context, const grpc::ByteBuffer& request,
                           grpc::ByteBuffer& reply) {
    const auto call = stub_.PrepareUnaryCall(&context, kEchoMethod, request, &queue_);
    call->StartCall();
    grpc::Status status;
    call->Finish(&reply, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return status;
  }

  // A thread of gRPC's does, and wakes this one.
  grpc::Status CallAndBeWoken(grpc::ClientContext& context, const grpc::ByteBuffer& request,
                              grpc::ByteBuffer& reply) {
    absl::Notification over;
    grpc::Status status;
    stub_.UnaryCall(&context, kEchoMethod, grpc::StubOptions(), &request, &reply,
                    [&](const grpc::Status& end) {
                      status = end;
                      over.Notify();
                    });
    over.WaitForNotification();
    return status;
  }

  void CopyOut(const grpc::ByteBuffer& reply) {
    std::vector<grpc::Slice> slices;
    if (!reply.Dump(&slices).ok()) Fail("a reply that is compressed");
    char* out = result_.data();
    for (const grpc::Slice& slice : slices) {
      out = std::copy_n(reinterpret_cast<const char*>(slice.begin()), slice.size(), out);
    }
  }

  const BenchCase bench_case_;
  const bool callback_;
  const std::vector<char> request_;
  std::vector<char> result_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

// gRPC's defaults, but for what a large message cannot do without.
std::shared_ptr<grpc::Channel> DefaultChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // as the others: one each
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class StubCaller final : public Caller {
 public:
  StubCaller(const std::string& address, const BenchCase& bench_case)
      : bench_case_(bench_case), stub_(v1::GemmService::NewStub(DefaultChannel(address))) {
    request_.add_payloads()->assign(bench_case.up_bytes(), 'a');
  }

  absl::Duration Call() override {
    grpc::ClientContext context;
    SetUp(context, bench_case_);
    v1::MultiplyReply reply;
    const grpc::Status status = stub_->Multiply(&context, request_, &reply);
    if (!status.ok()) Fail(status.error_message());
    if (reply.payloads(0).size() != bench_case_.down_bytes()) Fail("a reply of the wrong size");
    return absl::ZeroDuration();
  }

 private:
  const BenchCase bench_case_;
  const std::unique_ptr<v1::GemmService::Stub> stub_;
  v1::MultiplyRequest request_;
};

class ProductCaller final : public Caller {
 public:
  ProductCaller(const std::string& address, const BenchCase& bench_case)
      : client_(Client::Connect({.address = address, .timeout = kTimeout})),
        a_(bench_case.m * bench_case.k, 1.0F),
        b_(bench_case.k * bench_case.n, 2.0F),
        d_(bench_case.m * bench_case.n) {
    if (!client_.ok()) Fail(std::string(client_.status().message()));
    args_.m = bench_case.m;
    args_.n = bench_case.n;
    args_.k = bench_case.k;
    args_.a.data = a_;
    args_.b.data = b_;
    args_.d.data = d_;
  }

  absl::Duration Call() override {
    const absl::StatusOr<MultiplyReport> report = client_->Multiply(args_);
    if (!report.ok()) Fail(std::string(report.status().message()));
    if (d_.back() != 2.0F * static_cast<float>(args_.k)) Fail("a wrong product");
    return report->copy_in + report->compute + report->copy_out;
  }

 private:
  const absl::StatusOr<Client> client_;
  const std::vector<float> a_;
  const std::vector<float> b_;
  std::vector<float> d_;
  MultiplyArgs<float> args_;
};

}  // namespace

std::unique_ptr<Caller> MakeFloorCaller(const std::string& address, const BenchCase& bench_case,
                                        bool callback) {
  const auto channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                client::MakeChannelArguments(ClientOptions{.timeout = kTimeout}));
  return std::make_unique<RawCaller>(channel, bench_case, /*copy_out=*/true, callback);
}

std::unique_ptr<Caller> MakePlainCaller(const std::string& address, const BenchCase& bench_case) {
  return std::make_unique<RawCaller>(DefaultChannel(address), bench_case, /*copy_out=*/false);
}

std::unique_ptr<Caller> MakeStubCaller(const std::string& address, const BenchCase& bench_case) {
  return std::make_unique<StubCaller>(address, bench_case);
}

std::unique_ptr<Caller> MakeProductCaller(const std::string& address, const BenchCase& bench_case) {
  return std::make_unique<ProductCaller>(address, bench_case);
}

}  // namespace gemm::bench
