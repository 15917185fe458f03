#include "client/cpp/internal/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gemm::client {
namespace {

using ::testing::HasSubstr;

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

TEST(IsWithinHostTest, KnowsThisMachine) {
  for (const char* address : {"127.0.0.1:50051", "127.1.2.3:1", "localhost:1", "[::1]:50051",
                              "unix:/run/gemmd.sock", "unix-abstract:gemmd", "dns:///localhost:1",
                              "dns:127.0.0.1:1", "ipv4:127.0.0.1:1", "ipv6:[::1]:1"}) {
    EXPECT_TRUE(IsWithinHost(address)) << address;
  }
  for (const char* address : {"gpu7:50051", "10.0.0.127:1", "localhost.example.org:1",
                              "dns:///gpu7:50051", "dns://127.0.0.1/gpu7:50051", "[::1:2]:3"}) {
    EXPECT_FALSE(IsWithinHost(address)) << address;
  }
}

}  // namespace
}  // namespace gemm::client
