#include "gemmd/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"
#include "tests/client/freezable_peer.h"
#include "tests/client/frozen_proxy.h"

namespace gemm {
namespace {

using ::testing::AllOf;
using testing::ConnectTo;
using testing::DetailedStatus;
using ::testing::ElementsAre;
using testing::FakeServer;
using testing::FreezablePeer;
using testing::FrozenProxy;
using ::testing::HasSubstr;
using testing::StallingServer;

std::vector<float> Iota(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class ClientTest : public ::testing::Test {
 protected:
  FakeServer server_;
  Client client_ = ConnectTo(server_.address());
};

TEST_F(ClientTest, MultipliesAndReports) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};  // 2 x 3
  const std::vector<float> b = {1, 0, 0, 1, 1, 1};  // 3 x 2
  std::vector<float> d(4, NAN);
  const absl::StatusOr<MultiplyReport> report = client_.Multiply<float>({.m = 2,
                                                                         .n = 2,
                                                                         .k = 3,
                                                                         .a = {.data = a},
                                                                         .b = {.data = b},
                                                                         .d = {.data = d},
                                                                         .request_id = "job 7"});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(d, ElementsAre(4, 5, 10, 11));
  EXPECT_EQ(report->kernel, "fake_f32_1x1x1");
  EXPECT_EQ(report->device, "fake");
  EXPECT_EQ(report->device_index, 3);
  EXPECT_EQ(report->batch_problems, 2u);
  EXPECT_EQ(report->admit, absl::Nanoseconds(1));
  EXPECT_EQ(report->receive, absl::Nanoseconds(2));
  EXPECT_EQ(report->decode, absl::Nanoseconds(3));
  EXPECT_EQ(report->queue, absl::Nanoseconds(4));
  EXPECT_EQ(report->copy_in, absl::Nanoseconds(5));
  EXPECT_EQ(report->compute, absl::Nanoseconds(6));
  EXPECT_EQ(report->copy_out, absl::Nanoseconds(7));
  EXPECT_GT(report->wall, absl::ZeroDuration());
  EXPECT_EQ(report->attempts, 1);

  const v1::MultiplyRequest request = server_.last_request();
  EXPECT_EQ(request.request_id(), "job 7");
  EXPECT_EQ(request.product().precision(), v1::PRECISION_STRICT);
  EXPECT_FALSE(request.product().has_c());
  ASSERT_EQ(request.payloads_size(), 2);
  EXPECT_EQ(request.payloads(0).size(), 24u);
  EXPECT_EQ(request.payloads(1).size(), 24u);
  EXPECT_EQ(report->request_bytes, request.ByteSizeLong());
  EXPECT_EQ(server_.last_announced_bytes(), std::to_string(request.ByteSizeLong()));
  EXPECT_THAT(server_.last_user_agent(), HasSubstr("gemmd-cpp/"));
}

TEST_F(ClientTest, DoublesWithTransposesAlphaBetaAndC) {
  const std::vector<double> a = {1, 4, 2, 5, 3, 6};  // 3 x 2, transposed: {1 2 3; 4 5 6}
  const std::vector<double> b = {1, 0, 1, 0, 1, 1};  // 2 x 3, transposed: {1 0; 0 1; 1 1}
  const std::vector<double> c = {10, 20, 30, 40};
  std::vector<double> d(4);
  const absl::StatusOr<MultiplyReport> report =
      client_.Multiply<double>({.m = 2,
                                .n = 2,
                                .k = 3,
                                .a = {.data = a, .transposed = true},
                                .b = {.data = b, .transposed = true},
                                .c = {.data = c},
                                .d = {.data = d},
                                .alpha = 2,
                                .beta = -1});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(d, ElementsAre(-2, -10, -10, -18));
}

TEST_F(ClientTest, ResultMayReplaceItsAddend) {
  const std::vector<float> a = {2}, b = {3};
  std::vector<float> c = {10};
  ASSERT_TRUE(client_
                  .Multiply<float>({.m = 1,
                                    .n = 1,
                                    .k = 1,
                                    .a = {.data = a},
                                    .b = {.data = b},
                                    .c = {.data = c},
                                    .d = {.data = c},
                                    .beta = 1})
                  .ok());
  EXPECT_THAT(c, ElementsAre(16));
}

TEST_F(ClientTest, SameMemoryIsSentOnce) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<float> d(4);
  ASSERT_TRUE(client_
                  .Multiply<float>({.m = 2,
                                    .n = 2,
                                    .k = 3,
                                    .a = {.data = a},
                                    .b = {.data = a, .transposed = true},
                                    .d = {.data = d}})
                  .ok());
  EXPECT_THAT(d, ElementsAre(14, 32, 32, 77));
  EXPECT_EQ(server_.last_request().payloads_size(), 1);
}

TEST_F(ClientTest, SameStartButAnotherExtentIsSentTwice) {
  const std::vector<float> a = Iota(6, 1);
  std::vector<float> d(3);
  ASSERT_TRUE(
      client_
          .Multiply<float>(
              {.m = 1, .n = 3, .k = 2, .a = {.data = a}, .b = {.data = a}, .d = {.data = d}})
          .ok());
  EXPECT_THAT(d, ElementsAre(9, 12, 15));
  EXPECT_EQ(server_.last_request().payloads_size(), 2);
}

TEST_F(ClientTest, NarrowPaddingTravelsAndWidePaddingDoesNot) {
  // a: 2 x 3 with one element of padding; b: 3 x 1 in rows of 5; d: 2 x 1 in rows of 2.
  const std::vector<float> a = {1, 2, 3, NAN, 4, 5, 6};
  const std::vector<float> b = {1, NAN, NAN, NAN, NAN, 1, NAN, NAN, NAN, NAN, 1};
  std::vector<float> d = {-1, -2, -3, -4};
  ASSERT_TRUE(client_
                  .Multiply<float>({.m = 2,
                                    .n = 1,
                                    .k = 3,
                                    .a = {.data = a, .leading_dimension = 4},
                                    .b = {.data = b, .leading_dimension = 5},
                                    .d = {.data = d, .leading_dimension = 2}})
                  .ok());
  EXPECT_THAT(d, ElementsAre(6, -2, 15, -4));
  const v1::MultiplyRequest request = server_.last_request();
  EXPECT_EQ(request.payloads(0).size(), 7 * sizeof(float));
  EXPECT_EQ(request.product().a().leading_dimension(), 4);
  EXPECT_EQ(request.payloads(1).size(), 3 * sizeof(float));
  EXPECT_EQ(request.product().b().leading_dimension(), 0);
}

TEST_F(ClientTest, BatchesWithStridesAndBroadcast) {
  // Three products of 1 x 2 by 2 x 1: a packed with a gap, b shared, d spread out.
  const std::vector<float> a = {1, 2, NAN, 3, 4, NAN, 5, 6};
  const std::vector<float> b = {1, 10};
  std::vector<float> d = {0, -1, 0, -1, 0};
  ASSERT_TRUE(client_
                  .Multiply<float>({.m = 1,
                                    .n = 1,
                                    .k = 2,
                                    .a = {.data = a, .batch_stride = 3},
                                    .b = {.data = b, .batch_stride = 0},
                                    .d = {.data = d, .batch_stride = 2},
                                    .batch_count = 3})
                  .ok());
  EXPECT_THAT(d, ElementsAre(21, -1, 43, -1, 65));
  EXPECT_EQ(server_.last_request().payloads(1).size(), 2 * sizeof(float));
}

TEST_F(ClientTest, EmptyShapes) {
  const std::vector<float> x = Iota(4, 1);
  const std::vector<float> c = {1, 2, 3, 4};
  std::vector<float> d(4, NAN);
  EXPECT_TRUE(client_.Multiply<float>({.m = 0, .n = 2, .k = 2, .b = {.data = x}}).ok());
  EXPECT_TRUE(
      client_
          .Multiply<float>(
              {.m = 2, .n = 2, .k = 2, .a = {.data = x}, .b = {.data = x}, .batch_count = 0})
          .ok());
  ASSERT_TRUE(client_
                  .Multiply<float>({.m = 2,
                                    .n = 2,
                                    .k = 0,
                                    .a = {.leading_dimension = 7},
                                    .c = {.data = c},
                                    .d = {.data = d},
                                    .beta = 2})
                  .ok());
  EXPECT_THAT(d, ElementsAre(2, 4, 6, 8));
}

TEST_F(ClientTest, LargeMessagesBothWays) {
  const int64_t n = 2048;  // 16 MiB of D, beyond every default limit of gRPC
  const std::vector<float> a(n, 2), b(n, 3);
  std::vector<float> d(n * n);
  const absl::StatusOr<MultiplyReport> report = client_.Multiply<float>(
      {.m = n, .n = n, .k = 1, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(std::count(d.begin(), d.end(), 6.0f), n * n);
  EXPECT_GT(report->reply_bytes, d.size() * sizeof(float));
}

TEST_F(ClientTest, ManyThreadsShareAClient) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 20; ++i) {
        const std::vector<float> a(1, t), b(1, i);
        std::vector<float> d(1);
        const absl::StatusOr<MultiplyReport> report = client_.Multiply<float>(
            {.m = 1, .n = 1, .k = 1, .a = {.data = a}, .b = {.data = b}, .d = {.data = d}});
        ASSERT_TRUE(report.ok()) << report.status();
        ASSERT_EQ(d[0], t * i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ClientTest, ErrorsCarryReasonAndField) {
  server_.FailNext({DetailedStatus(grpc::StatusCode::INVALID_ARGUMENT, "m is odd",
                                   "INVALID_REQUEST", "product.m", 0)});
  const std::vector<float> x = {1};
  std::vector<float> d = {-1};
  const absl::Status status =
      client_
          .Multiply<float>(
              {.m = 1, .n = 1, .k = 1, .a = {.data = x}, .b = {.data = x}, .d = {.data = d}})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "m is odd");
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail);
  EXPECT_EQ(detail->reason, "INVALID_REQUEST");
  EXPECT_EQ(detail->field, "product.m");
  EXPECT_FALSE(detail->retry_delay);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_EQ(d[0], -1);
}

TEST_F(ClientTest, RetriesUnavailableAndHonoursTheServersDelay) {
  const grpc::Status full =
      DetailedStatus(grpc::StatusCode::UNAVAILABLE, "full", "QUEUE_FULL", "", 150);
  server_.FailNext({full, full});
  const std::vector<float> x = {3};
  std::vector<float> d(1);
  const absl::Time start = absl::Now();
  const absl::StatusOr<MultiplyReport> report = client_.Multiply<float>(
      {.m = 1, .n = 1, .k = 1, .a = {.data = x}, .b = {.data = x}, .d = {.data = d}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(d[0], 9);
  EXPECT_EQ(report->attempts, 3);
  EXPECT_EQ(server_.calls(), 3);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(300));
}

TEST_F(ClientTest, GivesUpAfterItsRetries) {
  const grpc::Status full =
      DetailedStatus(grpc::StatusCode::UNAVAILABLE, "full", "QUEUE_FULL", "", 1);
  server_.FailNext({full, full, full, full, full});
  const Client client =
      ConnectTo(server_.address(), {.max_retries = 2, .backoff_initial = absl::Milliseconds(1)});
  const absl::Status status = client.GetServerInfo().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("full"), HasSubstr("3 attempts")));
  EXPECT_EQ(GetErrorDetail(status)->reason, "QUEUE_FULL");
  EXPECT_EQ(GetErrorDetail(status)->retry_delay, absl::Milliseconds(1));
  EXPECT_EQ(server_.calls(), 3);
}

TEST_F(ClientTest, DoesNotBeginAWaitThatOutlastsTheTimeout) {
  server_.FailNext(
      {DetailedStatus(grpc::StatusCode::UNAVAILABLE, "full", "MEMORY_FULL", "", 9000)});
  const Client client = ConnectTo(server_.address(), {.timeout = absl::Seconds(2)});
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsUnavailable(client.GetServerInfo().status()));
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
}

TEST_F(ClientTest, BadRepliesAreErrorsAndLeaveTheResultAlone) {
  const std::vector<float> x = {3};
  std::vector<float> d = {-1};
  const auto multiply = [&] {
    return client_
        .Multiply<float>(
            {.m = 1, .n = 1, .k = 1, .a = {.data = x}, .b = {.data = x}, .d = {.data = d}})
        .status();
  };
  server_.EditReplies([](v1::MultiplyReply& reply) { reply.clear_payloads(); });
  EXPECT_TRUE(absl::IsInternal(multiply())) << multiply();
  server_.EditReplies([](v1::MultiplyReply& reply) { reply.mutable_payloads(0)->push_back('x'); });
  EXPECT_THAT(std::string(multiply().message()), HasSubstr("5 bytes, instead of one of 4"));
  server_.EditReplies([](v1::MultiplyReply& reply) { reply.add_payloads("more"); });
  EXPECT_TRUE(absl::IsInternal(multiply()));
  EXPECT_EQ(d[0], -1);
}

TEST_F(ClientTest, MessageLimitIsCheckedBeforeSending) {
  const Client client = ConnectTo(server_.address(), {.message_limit_bytes = 8192});
  const std::vector<float> x(4096);
  std::vector<float> d(4096);
  const absl::Status request =
      client
          .Multiply<float>(
              {.m = 1, .n = 1, .k = 4096, .a = {.data = x}, .b = {.data = x}, .d = {.data = d}})
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(request));
  EXPECT_EQ(GetErrorDetail(request)->reason, "MESSAGE_TOO_LARGE");
  const absl::Status reply =
      client
          .Multiply<float>(
              {.m = 64, .n = 64, .k = 1, .a = {.data = x}, .b = {.data = x}, .d = {.data = d}})
          .status();
  EXPECT_EQ(GetErrorDetail(reply)->reason, "RESULT_TOO_LARGE");
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(ClientTest, Explain) {
  const absl::StatusOr<Explanation> explanation =
      client_.Explain({.m = 2, .n = 3, .k = 5, .transpose_a = true});
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_EQ(explanation->chosen, "first");
  EXPECT_EQ(explanation->reason, "a transposed");
  EXPECT_EQ(explanation->device, "30");
  ASSERT_EQ(explanation->candidates.size(), 3u);
  EXPECT_EQ(explanation->candidates[0].modelled, absl::Milliseconds(250));
  EXPECT_EQ(explanation->candidates[1].why_not, "k is odd");
  EXPECT_EQ(explanation->candidates[2].modelled, absl::ZeroDuration());
  EXPECT_NE(server_.last_announced_bytes(), "");
}

TEST_F(ClientTest, GetServerInfo) {
  const absl::StatusOr<ServerInfo> info = client_.GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version, "1.2.3");
  ASSERT_EQ(info->devices.size(), 1u);
  EXPECT_EQ(info->devices[0].index, 1);
  EXPECT_TRUE(info->devices[0].healthy);
  EXPECT_THAT(info->element_types, ElementsAre(ElementType::kF32, ElementType::kF64));
  EXPECT_EQ(info->message_limit_bytes, uint64_t{64} << 20);
  EXPECT_EQ(info->matrix_memory_bytes, 1000u);
  EXPECT_EQ(info->matrix_memory_used_bytes, 100u);
  EXPECT_EQ(info->time_to_live_limit, absl::Hours(1));
  EXPECT_EQ(info->uptime, absl::Milliseconds(1500));
}

TEST_F(ClientTest, CheckHealth) {
  EXPECT_EQ(*client_.CheckHealth(), HealthState::kServing);
  server_.SetHealth(false);
  EXPECT_EQ(*client_.CheckHealth(), HealthState::kNotServing);
  EXPECT_TRUE(absl::IsNotFound(client_.CheckHealth("no.such.Service").status()));
}

TEST_F(ClientTest, AProxyInTheEnvironmentIsIgnored) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("grpc_proxy", "http://127.0.0.1:1", 1);
  EXPECT_TRUE(ConnectTo(server_.address()).GetServerInfo().ok());
  const absl::Status status =
      ConnectTo(server_.address(), {.max_retries = 0, .use_http_proxy = true})
          .GetServerInfo()
          .status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("grpc_proxy"));
  unsetenv("http_proxy");
  unsetenv("grpc_proxy");
}

// Operands that are freed as soon as the call returns: the address sanitizer sees a late read.
absl::Status MultiplyAndFree(const Client& client, int64_t n) {
  auto a = std::make_unique<std::vector<float>>(n * n, 1.0f);
  auto b = std::make_unique<std::vector<float>>(n * n, 2.0f);
  std::vector<float> d(n * n);
  return client
      .Multiply<float>(
          {.m = n, .n = n, .k = n, .a = {.data = *a}, .b = {.data = *b}, .d = {.data = d}})
      .status();
}

TEST(ClientMemoryTest, DeadlineMidUpload) {
  const StallingServer server;
  const Client client = ConnectTo(server.address(), {.timeout = absl::Milliseconds(200)});
  for (int i = 0; i < 5; ++i) {
    const absl::Time start = absl::Now();
    const absl::Status status = MultiplyAndFree(client, 2048);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no reply from " + server.address()));
    EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  }
}

TEST(ClientMemoryTest, RefusedMidUpload) {
  const StallingServer server(
      DetailedStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", "MEMORY_TOO_SMALL", "", 0));
  const Client client = ConnectTo(server.address());
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = MultiplyAndFree(client, 1024);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(GetErrorDetail(status)->reason, "MEMORY_TOO_SMALL");
  }
}

// The peer's kernel takes no more bytes: what the socket's write still holds comes back only when
// the connection is given up.
TEST(ClientMemoryTest, PeerThatStopsReading) {
  FreezablePeer peer;
  ASSERT_TRUE(peer.client().GetServerInfo().ok());
  peer.Freeze();
  const absl::Time start = absl::Now();
  EXPECT_FALSE(MultiplyAndFree(peer.client(), 2048).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));  // gRPC polls for it at most 10 s late
}

TEST(ClientAddressTest, NothingListens) {
  int port = 0;
  {
    const StallingServer server;  // a port that was free a moment ago
    port = server.port();
  }
  const Client client = ConnectTo("127.0.0.1:" + std::to_string(port), {.max_retries = 1});
  const absl::Status status = client.GetServerInfo().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no server listens at 127.0.0.1"), HasSubstr("2 attempts")));
  EXPECT_FALSE(GetErrorDetail(status));
}

TEST(ClientAddressTest, SomethingElseListens) {
  FrozenProxy proxy(0);  // closes every connection, as a TLS server does to a plaintext client
  const Client client = ConnectTo(proxy.address(), {.max_retries = 0});
  const absl::Status status = client.GetServerInfo().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("expects TLS")) << status;
}

TEST(ClientAddressTest, SomethingListensAndSaysNothing) {
  FrozenProxy proxy(0);
  proxy.Freeze();
  const Client client = ConnectTo(proxy.address(), {.timeout = absl::Milliseconds(300)});
  const absl::Status status = client.GetServerInfo().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no gRPC server answered at " + proxy.address()));
}

TEST(ClientOptionsTest, MistakesAreNamed) {
  const auto field_of = [](const ClientOptions& options) {
    const absl::Status status = Client::Connect(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return GetErrorDetail(status).value_or(ErrorDetail{}).field;
  };
  EXPECT_EQ(field_of({.address = "gpu7"}), "address");
  EXPECT_EQ(field_of({.timeout = absl::ZeroDuration()}), "timeout");
  EXPECT_EQ(field_of({.max_retries = -1}), "max_retries");
  EXPECT_EQ(field_of({.backoff_initial = -absl::Seconds(1)}), "backoff_initial");
  EXPECT_EQ(field_of({.backoff_limit = absl::Milliseconds(1)}), "backoff_limit");
  EXPECT_EQ(field_of({.stall_timeout = absl::ZeroDuration()}), "stall_timeout");
  EXPECT_EQ(field_of({.message_limit_bytes = uint64_t{1} << 31}), "message_limit_bytes");
}

}  // namespace
}  // namespace gemm
