// Loads against servers in this process.

#include "client/cli/perf/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "client/cli/perf/shape_mix.h"
#include "client/cli/perf/workload.h"
#include "tests/client/fake_server.h"

namespace gemm::cli {
namespace {

using gemm::testing::FakeServer;
using gemm::testing::StallingServer;
using ::testing::ElementsAre;
using ::testing::Pair;

bool GoOn(const LoadProgress& /*progress*/) { return true; }

ShapeMix Small() {
  absl::StatusOr<ShapeMix> mix = ShapeMix::Parse("4x4x4:3,3x5x7/f64/tb");
  EXPECT_TRUE(mix.ok()) << mix.status();
  return *std::move(mix);
}

class LoadTest : public ::testing::Test {
 protected:
  std::unique_ptr<Load> LoadOn(const std::string& address, LoadSettings settings = {}) {
    settings.client.address = address;
    absl::StatusOr<std::unique_ptr<Load>> load = Load::Create(settings, workload_);
    EXPECT_TRUE(load.ok()) << load.status();
    return *std::move(load);
  }

  FakeServer server_;
  const Workload workload_{Small(), /*copies=*/5, 1};
};

TEST_F(LoadTest, ClosedLoop) {
  const auto load = LoadOn(server_.address(), {.channels = 2});
  for (const int callers : {1, 5}) {
    const int calls_before = server_.calls();
    const Tally tally = load->Run({.callers = callers}, absl::Milliseconds(200), 1, GoOn);
    EXPECT_GT(tally.calls(), 10);
    EXPECT_EQ(tally.calls(), server_.calls() - calls_before);  // each is counted, and none left
    EXPECT_EQ(tally.products(), tally.calls());
    EXPECT_EQ(tally.failures(), 0);
    EXPECT_GE(tally.seconds(), 0.2);
    EXPECT_NEAR(tally.mean_phase_seconds(5), 6e-9, 1e-12);  // as the fake server says
    EXPECT_TRUE(load->CheckResults().ok());
  }
}

TEST_F(LoadTest, OpenLoopKeepsItsRate) {
  const auto load = LoadOn(server_.address(), {.channels = 3});
  const Tally tally = load->Run({.rate = 1000}, absl::Milliseconds(500), 1, GoOn);
  EXPECT_EQ(tally.calls(), server_.calls());
  EXPECT_NEAR(static_cast<double>(tally.calls()), 500, 120);  // five standard deviations
  EXPECT_EQ(tally.failures(), 0);
}

TEST_F(LoadTest, ErrorsAreCountedByCode) {
  server_.FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "full"),
                    grpc::Status(grpc::StatusCode::UNAVAILABLE, "full"),
                    grpc::Status(grpc::StatusCode::INTERNAL, "broken")});
  const auto load = LoadOn(server_.address());
  const Tally tally = load->Run({.callers = 1}, absl::Milliseconds(100), 1, GoOn);
  EXPECT_THAT(tally.errors(), ElementsAre(Pair(absl::StatusCode::kInternal, 1),
                                          Pair(absl::StatusCode::kUnavailable, 2)));
  EXPECT_EQ(tally.calls() + 3, server_.calls());  // none was tried again
}

TEST_F(LoadTest, WrongResultsAreFound) {
  const auto load = LoadOn(server_.address());
  server_.EditReplies([](v1::MultiplyReply& reply) { reply.mutable_payloads(0)->back() ^= 1; });
  load->Run({.callers = 3}, absl::Milliseconds(100), 1, GoOn);
  EXPECT_TRUE(absl::IsDataLoss(load->CheckResults()));
}

TEST_F(LoadTest, Batches) {
  const auto load = LoadOn(server_.address(), {.batch = 5});
  const Tally tally = load->Run({.callers = 3}, absl::Milliseconds(200), 1, GoOn);
  EXPECT_GT(tally.calls(), 5);
  EXPECT_EQ(tally.calls(), server_.calls());
  EXPECT_EQ(tally.products(), 5 * tally.calls());
  EXPECT_EQ(tally.failures(), 0);
  EXPECT_NEAR(tally.mean_phase_seconds(5), 6e-9, 1e-12);
  EXPECT_TRUE(load->CheckResults().ok());
  const v1::MultiplyBatchRequest request = server_.last_batch_request();
  EXPECT_EQ(request.payloads_size(), 2 * request.products_size());  // nothing is shared
}

TEST_F(LoadTest, ProductsOfABatchFailAlone) {
  server_.EditBatchReplies([](v1::MultiplyBatchReply& reply) {
    reply.mutable_results(0)->mutable_error()->set_code(8);
    reply.mutable_results(3)->mutable_error()->set_code(14);
    reply.mutable_payloads(0)->clear();
    reply.mutable_payloads(3)->clear();
  });
  const auto load = LoadOn(server_.address(), {.batch = 5});
  const Tally tally = load->Run({.rate = 100}, absl::Milliseconds(200), 1, GoOn);
  ASSERT_GT(tally.calls(), 0);
  EXPECT_EQ(tally.products(), 3 * tally.calls());
  EXPECT_THAT(tally.errors(), ElementsAre(Pair(absl::StatusCode::kResourceExhausted, tally.calls()),
                                          Pair(absl::StatusCode::kUnavailable, tally.calls())));
  EXPECT_NEAR(tally.mean_phase_seconds(5), 6e-9, 1e-12);
}

TEST_F(LoadTest, BatchesWithBOnTheServer) {
  ShapeMix mix = Small();
  mix.KeepBOnServer();
  Workload workload(mix, /*copies=*/4, 1);
  const absl::StatusOr<Client> client = Client::Connect({.address = server_.address()});
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE(workload.PutMatrices(*client).ok());
  EXPECT_EQ(client->ListMatrices()->size(), 2u);
  LoadSettings settings{.client = {.address = server_.address()}, .batch = 4};
  const auto load = Load::Create(settings, workload);
  ASSERT_TRUE(load.ok());
  const Tally tally = (*load)->Run({.callers = 2}, absl::Milliseconds(100), 1, GoOn);
  EXPECT_GT(tally.products(), 0);
  EXPECT_EQ(tally.failures(), 0);
  EXPECT_TRUE((*load)->CheckResults().ok());
  EXPECT_EQ(server_.last_batch_request().payloads_size(), 4);  // the As
  // Only what travels counts.
  const double bytes_a_product = tally.gigabytes_per_second() * 1e9 / tally.products_per_second();
  EXPECT_LE(bytes_a_product, std::max(2 * 4 * 4 * 4, (3 * 7 + 3 * 5) * 8));
  workload.DeleteMatrices(*client);
  EXPECT_TRUE(client->ListMatrices()->empty());
}

TEST_F(LoadTest, CallersOfAClosedLoopCallAtOnce) {
  constexpr int kCallers = 6;
  std::atomic<int> under_way = 0;
  std::atomic<int> most = 0;
  for (int i = 1; i <= kCallers; ++i) {
    server_.OnCall("Multiply", i, [&] {
      most = std::max<int>(most, ++under_way);
      const absl::Time give_up = absl::Now() + absl::Seconds(5);
      while (most < kCallers && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
      return grpc::Status::OK;
    });
  }
  const auto load = LoadOn(server_.address(), {.channels = 2});
  load->Run({.callers = kCallers}, absl::Seconds(10), 1,
            [&most](const LoadProgress&) { return most < kCallers; });
  EXPECT_EQ(most, kCallers);
}

// All that is due while the server does not answer is either late or unsent.
TEST_F(LoadTest, AStalledServerCannotHide) {
  const StallingServer stalling;
  const auto load =
      LoadOn(stalling.address(), {.client = {.timeout = absl::Seconds(1)}, .outstanding = 10});
  const Tally tally = load->Run({.rate = 500}, absl::Milliseconds(400), 1, GoOn);
  EXPECT_THAT(tally.errors(), ElementsAre(Pair(absl::StatusCode::kDeadlineExceeded, 10)));
  EXPECT_NEAR(static_cast<double>(tally.unsent()), 190, 75);
  EXPECT_EQ(tally.calls(), 0);
}

TEST_F(LoadTest, LatencyCountsFromWhenACallWasDue) {
  const absl::Time start = absl::Now();
  server_.EditReplies([start](v1::MultiplyReply&) {  // nobody is answered for the first 300 ms
    absl::SleepFor(start + absl::Milliseconds(300) - absl::Now());
  });
  const auto load = LoadOn(server_.address(), {.outstanding = 4});
  const Tally tally = load->Run({.rate = 300}, absl::Milliseconds(600), 1, GoOn);
  EXPECT_EQ(tally.failures(), 0);
  // Half of all were due meanwhile and waited, though only 4 were under way.
  EXPECT_GT(tally.latency().Percentile(75), std::chrono::milliseconds(75));
  EXPECT_GT(tally.mean_wait_seconds(), 0.03);
}

TEST_F(LoadTest, StopsWhenToldTo) {
  const StallingServer stalling;
  for (const LoadPoint point : {LoadPoint{.callers = 4}, LoadPoint{.rate = 100}}) {
    const auto load = LoadOn(stalling.address());
    const absl::Time start = absl::Now();
    const Tally tally = load->Run(point, absl::Seconds(60), 1, [](const LoadProgress& progress) {
      return progress.elapsed < absl::Milliseconds(200);
    });
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
    EXPECT_EQ(tally.calls(), 0);
    EXPECT_THAT(tally.errors(), ::testing::IsEmpty());  // what was cancelled is none
    EXPECT_EQ(tally.unsent(), 0);
    EXPECT_LT(tally.seconds(), 10);
  }
}

TEST_F(LoadTest, ASenderThatIsLateWhenItIsStoppedHasLeftNothingUnsent) {
  const auto load = LoadOn(server_.address(), {.outstanding = 50'000});
  // More than anything can send.
  const Tally tally = load->Run(
      {.rate = 1e7}, absl::Seconds(60), 1,
      [](const LoadProgress& progress) { return progress.elapsed < absl::Milliseconds(50); });
  EXPECT_EQ(tally.unsent(), 0);
}

}  // namespace
}  // namespace gemm::cli
