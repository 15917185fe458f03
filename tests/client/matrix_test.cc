// Matrices that stay on the server: names, panels, retries, errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gemmd/client.h"
#include "tests/client/connect_to.h"
#include "tests/client/fake_server.h"
#include "tests/client/matrix_values.h"

namespace gemm {
namespace {

using testing::BytesOf;
using testing::ConnectTo;
using testing::DetailedStatus;
using ::testing::ElementsAre;
using testing::FakeServer;
using testing::FieldOf;
using ::testing::IsEmpty;
using testing::Numbered;
using testing::ReasonOf;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

grpc::Status Busy() {
  return DetailedStatus(grpc::StatusCode::UNAVAILABLE, "being written", "MATRIX_BUSY", "", 1);
}

// Panels of 16 KiB less what a description may take: three of 4 KiB rows, over three connections.
constexpr uint64_t kLimit = 16 << 10;
constexpr int64_t kColumns = 1024;

class MatrixTest : public ::testing::Test {
 protected:
  static ClientOptions Options() {
    return {.backoff_initial = absl::Milliseconds(1), .message_limit_bytes = kLimit, .channels = 3};
  }

  absl::StatusOr<MatrixInfo> Put(const std::string& name, const std::vector<float>& values,
                                 bool exist_ok = false, OnTransfer on_transfer = {}) {
    return client_.Put<float>({.name = name,
                               .rows = static_cast<int64_t>(values.size()) / kColumns,
                               .columns = kColumns,
                               .data = values,
                               .exist_ok = exist_ok,
                               .on_transfer = std::move(on_transfer)});
  }

  FakeServer server_;
  Client client_ = ConnectTo(server_.address(), Options());
};

TEST_F(MatrixTest, PutAndGetGoInPanelsOverSeveralConnections) {
  const std::vector<float> values = Numbered<float>(10 * kColumns);
  // All three must be at work for any to go on.
  std::atomic<int> arrived = 0;
  for (int i = 1; i <= 3; ++i) {
    server_.OnCall("WriteRows", i, [&arrived] {
      ++arrived;
      const absl::Time give_up = absl::Now() + absl::Seconds(10);
      while (arrived < 3 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
      return grpc::Status::OK;
    });
  }
  const absl::StatusOr<MatrixInfo> put = Put("w", values);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(arrived, 3);
  EXPECT_EQ(put->name, "w");
  EXPECT_EQ(put->element_type, ElementType::kF32);
  EXPECT_EQ(put->rows, 10);
  EXPECT_EQ(put->columns, kColumns);
  EXPECT_EQ(put->rows_written, 10);
  EXPECT_TRUE(put->sealed);
  using Panel = std::pair<int64_t, int64_t>;
  EXPECT_THAT(server_.panels("w"),
              UnorderedElementsAre(Panel(0, 3), Panel(3, 3), Panel(6, 3), Panel(9, 1)));
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
  EXPECT_THAT(server_.peers(), SizeIs(3));

  std::vector<float> all(values.size());
  const absl::StatusOr<MatrixInfo> got = client_.Get<float>({.name = "w"}, all);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->rows, 10);
  EXPECT_EQ(all, values);
  std::vector<float> some(4 * kColumns);
  ASSERT_TRUE(client_.Get<float>({.name = "w", .row_begin = 5, .row_count = 4}, some).ok());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), values.begin() + 5 * kColumns));
  some.resize(2 * kColumns);
  ASSERT_TRUE(client_.Get<float>({.name = "w", .row_begin = 8}, some).ok());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), values.begin() + 8 * kColumns));
}

// Two calls at a time on a connection cost both of them more than they gain.
TEST_F(MatrixTest, AConnectionCarriesOnePanelAtATime) {
  constexpr int64_t kPanels = 4;  // of each matrix
  const Client client =
      ConnectTo(server_.address(), {.message_limit_bytes = kLimit, .channels = 1});
  std::atomic<int> under_way = 0;
  std::atomic<bool> two_at_once = false;
  for (int i = 1; i <= 2 * kPanels; ++i) {
    server_.OnCall("WriteRows", i, [&] {
      ++under_way;
      const absl::Time give_up = absl::Now() + absl::Milliseconds(20);
      while (!two_at_once && absl::Now() < give_up) {
        if (under_way > 1) two_at_once = true;
        absl::SleepFor(absl::Milliseconds(1));
      }
      --under_way;
      return grpc::Status::OK;
    });
  }
  const std::vector<float> values = Numbered<float>(3 * kPanels * kColumns);
  const auto put = [&](const std::string& name) {
    return client.Put<float>(
        {.name = name, .rows = 3 * kPanels, .columns = kColumns, .data = values});
  };
  auto other = std::async(std::launch::async, [&] { return put("v").status(); });
  EXPECT_TRUE(put("w").ok());
  EXPECT_TRUE(other.get().ok());
  EXPECT_FALSE(two_at_once);
  EXPECT_EQ(server_.matrix_bytes("v"), BytesOf(values));
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
}

TEST_F(MatrixTest, TheServersMessageLimitIsKeptToo) {
  server_.SetMessageLimit(2 << 20);
  const Client client = ConnectTo(server_.address(), {.channels = 1});
  const std::vector<double> values = Numbered<double>(1 << 19);  // 4 MiB
  ASSERT_TRUE(
      client.Put<double>({.name = "w", .rows = 1 << 10, .columns = 1 << 9, .data = values}).ok());
  EXPECT_THAT(server_.panels("w"), SizeIs(3));
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
}

TEST_F(MatrixTest, RowsThatFitNoMessageAreRefusedHere) {
  const std::vector<float> values(2 * kLimit);
  const absl::Status status =
      client_.Put<float>({.name = "w", .rows = 2, .columns = kLimit, .data = values}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(ReasonOf(status), "MESSAGE_TOO_LARGE");
}

TEST_F(MatrixTest, PaddingIsLeftBehind) {
  std::vector<float> padded = Numbered<float>(7 * (kColumns + 5));
  const int64_t ld = kColumns + 5;
  std::vector<float> dense;
  for (int64_t i = 0; i < 7; ++i) {
    dense.insert(dense.end(), padded.begin() + i * ld, padded.begin() + i * ld + kColumns);
  }
  padded.resize(6 * ld + kColumns);  // nothing is read behind the last row
  padded.shrink_to_fit();
  ASSERT_TRUE(client_
                  .Put<float>({.name = "w",
                               .rows = 7,
                               .columns = kColumns,
                               .data = padded,
                               .leading_dimension = ld})
                  .ok());
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(dense));
}

TEST_F(MatrixTest, AMatrixWithoutElements) {
  for (const auto& [rows, columns] : {std::pair(0, 5), std::pair(5, 0), std::pair(0, 0)}) {
    const absl::StatusOr<MatrixInfo> put =
        client_.Put<float>({.name = "e", .rows = rows, .columns = columns});
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_TRUE(put->sealed);
    EXPECT_TRUE(client_.Get<float>({.name = "e"}, {}).ok());
    ASSERT_TRUE(client_.DeleteMatrix("e").ok());
  }
}

TEST_F(MatrixTest, ANameIsMadeUpOnce) {
  const std::vector<float> values = Numbered<float>(kColumns);
  const auto lose_reply = [] {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection lost");
  };
  server_.OnCall("CreateMatrix", 1, lose_reply);
  const absl::StatusOr<MatrixInfo> first = Put("", values);
  const absl::StatusOr<MatrixInfo> second = Put("", values);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->name, second->name);
  EXPECT_THAT(first->name,
              ::testing::MatchesRegex(
                  "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_THAT(*client_.ListMatrices(), SizeIs(2));
}

TEST_F(MatrixTest, BusyRowsAreTriedAgain) {
  const std::vector<float> values = Numbered<float>(10 * kColumns);
  server_.OnCall("WriteRows", 1, Busy);
  server_.OnCall("WriteRows", 3, Busy);
  ASSERT_TRUE(Put("w", values).ok());
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
}

TEST_F(MatrixTest, AServerThatRestartsInTheMiddleGetsAllOfItAgain) {
  const std::vector<float> values = Numbered<float>(10 * kColumns);
  server_.OnCall("WriteRows", 3, [this] {
    server_.ForgetMatrices();
    return grpc::Status::OK;
  });
  const absl::StatusOr<MatrixInfo> put = Put("w", values);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(put->sealed);
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
}

TEST_F(MatrixTest, AServerThatForgetsAgainAndAgainIsGivenUp) {
  for (int i = 1; i <= 50; ++i) {
    server_.OnCall("WriteRows", i, [this] {
      server_.ForgetMatrices();
      return grpc::Status::OK;
    });
  }
  const absl::Status status = Put("w", Numbered<float>(kColumns)).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(ReasonOf(status), "MATRIX_NOT_FOUND");
}

TEST_F(MatrixTest, TheFirstFailureEndsAPut) {
  std::atomic<int> begun = 0;
  for (int i = 1; i <= 40; ++i) {
    server_.OnCall("WriteRows", i, [&begun] {
      return ++begun == 2 ? grpc::Status(grpc::StatusCode::INTERNAL, "the device failed")
                          : grpc::Status::OK;
    });
  }
  const std::vector<float> values = Numbered<float>(kColumns * 3 * 40);
  const absl::Status status = Put("w", values).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_LT(begun, 40);
  // What has arrived is there, for a Put that completes it.
  EXPECT_EQ(ReasonOf(Put("w", values).status()), "MATRIX_EXISTS");
  const absl::StatusOr<MatrixInfo> again = Put("w", values, /*exist_ok=*/true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->sealed);
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
}

TEST_F(MatrixTest, AFailedPutLeavesNothingWithoutAName) {
  server_.OnCall("WriteRows", 2,
                 [] { return grpc::Status(grpc::StatusCode::INTERNAL, "the device failed"); });
  EXPECT_FALSE(Put("", Numbered<float>(10 * kColumns)).ok());
  EXPECT_THAT(*client_.ListMatrices(), IsEmpty());
}

TEST_F(MatrixTest, AnotherMatrixOfTheNameIsAnError) {
  const std::vector<float> values = Numbered<float>(2 * kColumns);
  ASSERT_TRUE(Put("w", values).ok());
  EXPECT_EQ(ReasonOf(Put("w", values).status()), "MATRIX_EXISTS");
  EXPECT_TRUE(Put("w", values, /*exist_ok=*/true).ok());
  const absl::Status status = Put("w", Numbered<float>(3 * kColumns), /*exist_ok=*/true).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(server_.matrix_bytes("w"), BytesOf(values));
}

TEST_F(MatrixTest, TransfersTellHowFarTheyAre) {
  const std::vector<float> values = Numbered<float>(10 * kColumns);
  std::vector<uint64_t> done;
  const OnTransfer on_transfer = [&done](uint64_t done_bytes, uint64_t all_bytes) {
    EXPECT_EQ(all_bytes, 10u * kColumns * sizeof(float));
    done.push_back(done_bytes);
  };
  ASSERT_TRUE(Put("w", values, false, on_transfer).ok());
  EXPECT_THAT(done, SizeIs(4));
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 10u * kColumns * sizeof(float));
  done.clear();
  std::vector<float> back(values.size());
  ASSERT_TRUE(client_.Get<float>({.name = "w"}, back, on_transfer).ok());
  EXPECT_THAT(done, SizeIs(4));
}

TEST_F(MatrixTest, PartsOfAPutByHand) {
  const absl::StatusOr<MatrixInfo> made = client_.CreateMatrix({.name = "w",
                                                                .element_type = ElementType::kF64,
                                                                .rows = 3,
                                                                .columns = 2,
                                                                .time_to_live = absl::Minutes(5)});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->sealed);
  EXPECT_EQ(made->time_to_live, absl::Minutes(5));
  const std::vector<double> values = Numbered<double>(6);
  const std::span<const double> span = values;
  const absl::StatusOr<MatrixInfo> last =
      client_.WriteRows<double>({.name = "w", .row_begin = 2}, span.subspan(4));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->rows_written, 1);

  std::vector<double> back(6);
  const absl::Status early = client_.ReadRows<double>({.name = "w"}, back).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  EXPECT_EQ(ReasonOf(early), "MATRIX_NOT_SEALED");

  absl::Notification written;
  client_.WriteRowsAsync<double>({.name = "w", .row_begin = 0, .row_count = 2}, span.first(4),
                                 [&written](const absl::StatusOr<MatrixInfo>& info) {
                                   EXPECT_TRUE(info.ok() && info->sealed) << info.status();
                                   written.Notify();
                                 });
  written.WaitForNotification();
  ASSERT_TRUE(client_.ReadRows<double>({.name = "w"}, back).ok());
  EXPECT_EQ(back, values);
  absl::Notification read;
  std::vector<double> row(2);
  client_.ReadRowsAsync<double>({.name = "w", .row_begin = 1, .row_count = 1}, std::span(row),
                                [&read](const absl::StatusOr<MatrixInfo>& info) {
                                  EXPECT_TRUE(info.ok()) << info.status();
                                  read.Notify();
                                });
  read.WaitForNotification();
  EXPECT_THAT(row, ElementsAre(3, 4));
}

TEST_F(MatrixTest, AnotherTypeIsNoticed) {
  const std::vector<float> values = Numbered<float>(2 * kColumns);
  ASSERT_TRUE(Put("w", values).ok());
  std::vector<double> doubles(kColumns, -1);  // as many bytes
  EXPECT_EQ(FieldOf(client_.Get<double>({.name = "w"}, doubles).status()), "data");
  EXPECT_EQ(FieldOf(client_.ReadRows<double>({.name = "w"}, doubles).status()), "name");
  EXPECT_EQ(doubles[0], -1);
  EXPECT_EQ(FieldOf(client_.WriteRows<double>({.name = "w"}, doubles).status()), "name");
}

TEST_F(MatrixTest, SizesThatDoNotMatchAreErrors) {
  ASSERT_TRUE(Put("w", Numbered<float>(4 * kColumns)).ok());
  std::vector<float> data(3 * kColumns, -1);
  EXPECT_EQ(FieldOf(client_.Get<float>({.name = "w"}, data).status()), "data");
  EXPECT_EQ(FieldOf(client_.ReadRows<float>({.name = "w", .row_count = 2}, data).status()), "data");
  EXPECT_EQ(
      FieldOf(client_.Get<float>({.name = "w", .row_begin = 2, .row_count = 3}, data).status()),
      "row_count");
  EXPECT_EQ(FieldOf(client_.Get<float>({.name = "w", .row_begin = 5}, data).status()), "row_count");
  EXPECT_EQ(data, std::vector<float>(3 * kColumns, -1));
}

TEST_F(MatrixTest, MistakesAreFoundWithoutACall) {
  const std::vector<float> values(6);
  std::vector<float> out(6);
  const auto put = [&](const PutArgs<float>& args) { return FieldOf(client_.Put(args).status()); };
  EXPECT_EQ(put({.name = "a b", .rows = 2, .columns = 3, .data = values}), "name");
  EXPECT_EQ(put({.name = std::string(129, 'x'), .rows = 2, .columns = 3, .data = values}), "name");
  EXPECT_EQ(put({.name = "w", .rows = -1, .columns = 3, .data = values}), "rows");
  EXPECT_EQ(put({.name = "w", .rows = 2, .columns = -3, .data = values}), "columns");
  EXPECT_EQ(put({.name = "w", .rows = INT64_MAX, .columns = 3, .data = values}), "rows");
  EXPECT_EQ(put({.name = "w", .rows = 2, .columns = 4, .data = values}), "data");
  EXPECT_EQ(put({.name = "w", .rows = 2, .columns = 3, .data = values, .leading_dimension = 2}),
            "leading_dimension");
  EXPECT_EQ(put({.name = "w", .rows = 2, .columns = 3, .data = values, .leading_dimension = 4}),
            "data");
  EXPECT_EQ(
      put({.name = "w", .rows = 3, .columns = 3, .data = values, .leading_dimension = INT64_MAX}),
      "leading_dimension");
  EXPECT_EQ(put({.name = "w",
                 .rows = 2,
                 .columns = 3,
                 .data = values,
                 .time_to_live = -absl::Seconds(1)}),
            "time_to_live");
  EXPECT_EQ(FieldOf(client_.Get<float>({.name = ""}, out).status()), "name");
  EXPECT_EQ(FieldOf(client_.Get<float>({.name = "w", .row_begin = -1}, out).status()), "row_begin");
  EXPECT_EQ(FieldOf(client_.WriteRows<float>({.name = "w", .row_count = -1}, values).status()),
            "row_count");
  EXPECT_EQ(FieldOf(client_.GetMatrix("/").status()), "name");
  EXPECT_EQ(FieldOf(client_.DeleteMatrix("")), "name");
  EXPECT_EQ(server_.calls(), 0);
  EXPECT_EQ(FieldOf(Client::Connect({.channels = 0}).status()), "channels");
}

TEST_F(MatrixTest, ListsAllPagesAndDeletes) {
  for (const char* name : {"c", "a", "e", "b", "d"}) {
    ASSERT_TRUE(client_.CreateMatrix({.name = name, .rows = 1, .columns = 1}).ok());
  }
  const absl::StatusOr<std::vector<MatrixInfo>> all = client_.ListMatrices();
  ASSERT_TRUE(all.ok()) << all.status();
  std::vector<std::string> names;
  for (const MatrixInfo& matrix : *all) names.push_back(matrix.name);
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_TRUE(client_.DeleteMatrix("c").ok());
  EXPECT_EQ(ReasonOf(client_.DeleteMatrix("c")), "MATRIX_NOT_FOUND");
  EXPECT_EQ(ReasonOf(client_.GetMatrix("c").status()), "MATRIX_NOT_FOUND");
  EXPECT_THAT(*client_.ListMatrices(), SizeIs(4));
}

}  // namespace
}  // namespace gemm
