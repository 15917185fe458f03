// Transfers against a server in this process.

#include "client/cli/perf/upload.h"

#include <gtest/gtest.h>

#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"

namespace gemm::cli {
namespace {

using gemm::testing::ConnectTo;
using gemm::testing::FakeServer;

bool GoOn(const UploadResult& /*so_far*/) { return true; }

TEST(UploadTest, CountsTransfersAndLeavesNothingBehind) {
  FakeServer server;
  const Client client = ConnectTo(server.address());
  Upload upload(100'000, 1);
  EXPECT_EQ(upload.rows(), 6);  // 16 KiB each
  int asked = 0;
  const absl::StatusOr<UploadResult> result =
      upload.Run(client, absl::InfiniteDuration(), [&](const UploadResult& so_far) {
        EXPECT_EQ(so_far.put.transfers, asked);
        return ++asked < 4;
      });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->put.transfers, 3);
  EXPECT_EQ(result->get.transfers, 3);
  EXPECT_EQ(result->matrix_bytes, 6 * 16384);
  EXPECT_GE(result->put.total, 3 * result->put.best);
  EXPECT_TRUE(client.ListMatrices()->empty());
}

TEST(UploadTest, RatesAreThoseOfTheMeanAndTheBest) {
  UploadResult result{.matrix_bytes = 3'000'000'000};
  EXPECT_EQ(result.gigabytes_per_second(result.put), 0);
  EXPECT_EQ(result.best_gigabytes_per_second(result.put), 0);
  result.put.Add(absl::Seconds(1));
  result.put.Add(absl::Seconds(3));
  EXPECT_DOUBLE_EQ(result.gigabytes_per_second(result.put), 1.5);
  EXPECT_DOUBLE_EQ(result.best_gigabytes_per_second(result.put), 3);
}

TEST(UploadTest, OneTransferIsTheLeast) {
  FakeServer server;
  const Client client = ConnectTo(server.address());
  Upload upload(1, 1);
  EXPECT_EQ(upload.rows(), 1);
  const absl::StatusOr<UploadResult> result = upload.Run(client, absl::ZeroDuration(), GoOn);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->get.transfers, 1);
}

TEST(UploadTest, ACopyThatIsNotOneIsFound) {
  FakeServer server;
  server.EditRows([](v1::ReadRowsReply& reply) { reply.mutable_payloads(0)->back() ^= 1; });
  const Client client = ConnectTo(server.address());
  Upload upload(1 << 16, 1);
  const absl::Status status = upload.Run(client, absl::ZeroDuration(), GoOn).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(std::string(status.message()).find("element (3, 4095)"), std::string::npos) << status;
  EXPECT_TRUE(client.ListMatrices()->empty());
}

TEST(UploadTest, FailuresAreTold) {
  FakeServer server;
  const Client client = ConnectTo(server.address());
  Upload upload(1 << 16, 1);
  server.OnCall("ReadRows", 2,
                [] { return grpc::Status(grpc::StatusCode::INTERNAL, "the device failed"); });
  const absl::Status status = upload.Run(client, absl::ZeroDuration(), GoOn).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_TRUE(client.ListMatrices()->empty());
}

}  // namespace
}  // namespace gemm::cli
