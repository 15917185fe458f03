#include "client/cpp/internal/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gemm::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Advice(const std::string& message, bool proxy_in_use = false) {
  return AdviceOn({.message = message, .address = "x:1", .proxy_in_use = proxy_in_use});
}

// The texts are gRPC's own, of version 1.51.
TEST(AdviceTest, SaysWhatToLookAt) {
  EXPECT_THAT(Advice("Failed to connect to remote host: Connection refused"),
              HasSubstr("is gemmd running there"));
  EXPECT_THAT(Advice("UNKNOWN: unix:/nope/x: No such file or directory"), HasSubstr("no socket"));
  EXPECT_THAT(Advice("DNS resolution failed for x: C-ares status is not ARES_SUCCESS"),
              HasSubstr("cannot be found"));
  EXPECT_THAT(Advice("Trying to connect an http1.x server"),
              AllOf(HasSubstr("HTTP but not gRPC"), HasSubstr("metrics port")));
  EXPECT_THAT(Advice("Failed parsing HTTP/2"), HasSubstr("something else than gRPC"));
  EXPECT_THAT(Advice("Socket closed"), HasSubstr("expects TLS"));
  EXPECT_THAT(Advice("recvmsg:Connection reset by peer"), HasSubstr("expects TLS"));
  EXPECT_THAT(Advice("Network is unreachable"), HasSubstr("firewall"));
  EXPECT_EQ(Advice("something new"), "");
}

TEST(AdviceTest, ReadsHttpStatusesWhateverTheirCode) {
  const NetworkFailure failure = {.code = absl::StatusCode::kUnimplemented,
                                  .message = "Received http2 header with status: 404",
                                  .address = "x:1"};
  EXPECT_THAT(AdviceOn(failure), HasSubstr("HTTP but not gRPC"));
}

TEST(AdviceTest, AnUnknownMethodIsAnOlderServer) {
  const NetworkFailure failure = {
      .code = absl::StatusCode::kUnimplemented, .address = "x:1", .method = "/gemm.v9.S/M"};
  EXPECT_THAT(AdviceOn(failure),
              AllOf(HasSubstr("does not know /gemm.v9.S/M"), HasSubstr("older than this client")));
}

TEST(AdviceTest, NamesTheProxyOnlyWhenItIsInUse) {
  setenv("http_proxy", "http://proxy:3128", 1);
  EXPECT_THAT(Advice("Connection refused", true), HasSubstr("the proxy that http_proxy names"));
  EXPECT_THAT(Advice("Connection refused", false), Not(HasSubstr("_proxy")));
  unsetenv("http_proxy");
}

}  // namespace
}  // namespace gemm::client
