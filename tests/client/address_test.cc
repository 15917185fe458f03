#include "client/cpp/internal/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gemm::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CheckAddressTest, Accepts) {
  for (const char* address :
       {"127.0.0.1:50051", "localhost:1", "gpu7.example.org:65535", "[::1]:50051",
        "dns:///gpu7:50051", "unix:/run/gemmd.sock", "unix:relative.sock", "ipv4:127.0.0.1:1"}) {
    EXPECT_TRUE(CheckAddress(address).ok()) << address << ": " << CheckAddress(address);
  }
}

TEST(CheckAddressTest, RefusesAndSaysWhy) {
  const auto fault = [](const std::string& address) {
    const absl::Status status = CheckAddress(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"" + address + "\""));
    return std::string(status.message());
  };
  EXPECT_THAT(fault(""), HasSubstr("is empty"));
  EXPECT_THAT(fault("gpu7"), HasSubstr("no port"));
  EXPECT_THAT(fault("[::1]"), HasSubstr("no port"));
  EXPECT_THAT(fault(":50051"), HasSubstr("no host"));
  EXPECT_THAT(fault("gpu7:"), HasSubstr("port outside"));
  EXPECT_THAT(fault("gpu7:0"), HasSubstr("port outside"));
  EXPECT_THAT(fault("gpu7:65536"), HasSubstr("port outside"));
  EXPECT_THAT(fault("gpu7:http"), HasSubstr("port outside"));
  EXPECT_THAT(fault("::1:50051"), HasSubstr("without brackets"));
  EXPECT_THAT(fault("http://gpu7:50051"), HasSubstr("starts with http://"));
}

TEST(AdviceTest, SaysWhatToLookAt) {
  const auto advice = [](const char* text) { return AdviceWhenUnavailable(text, "x:1", false); };
  EXPECT_THAT(advice("Failed to connect to remote host: Connection refused"),
              HasSubstr("is gemmd running there"));
  EXPECT_THAT(advice("DNS resolution failed for x"), HasSubstr("cannot be found"));
  EXPECT_THAT(advice("Socket closed"), HasSubstr("expects TLS"));
  EXPECT_THAT(advice("Ssl handshake failed"), HasSubstr("expects TLS"));
  EXPECT_THAT(advice("Failed parsing HTTP/2"), HasSubstr("is not gemmd"));
  EXPECT_EQ(advice("something new"), "");
}

TEST(AdviceTest, NamesTheProxyOnlyWhenItIsInUse) {
  setenv("http_proxy", "http://proxy:3128", 1);
  EXPECT_THAT(AdviceWhenUnavailable("Connection refused", "x:1", true), HasSubstr("_proxy"));
  EXPECT_THAT(AdviceWhenUnavailable("Connection refused", "x:1", false), Not(HasSubstr("_proxy")));
  unsetenv("http_proxy");
}

}  // namespace
}  // namespace gemm::client
