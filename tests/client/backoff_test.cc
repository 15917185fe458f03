#include "client/cpp/internal/backoff.h"

#include <gtest/gtest.h>

#include "client/cpp/internal/error.h"
#include "gemm/v1/error_details.pb.h"

namespace gemm::client {
namespace {

const absl::Status kUnavailable = absl::UnavailableError("full");

TEST(BackoffTest, DoublesUpToTheLimitWithJitter) {
  Backoff backoff({.max_retries = 5,
                   .backoff_initial = absl::Milliseconds(100),
                   .backoff_limit = absl::Milliseconds(400)});
  for (const int step_ms : {100, 200, 400, 400, 400}) {
    const std::optional<absl::Duration> wait =
        backoff.NextWait(kUnavailable, absl::InfiniteDuration());
    ASSERT_TRUE(wait);
    EXPECT_GE(*wait, absl::Milliseconds(step_ms) / 2);
    EXPECT_LE(*wait, absl::Milliseconds(step_ms));
  }
  EXPECT_FALSE(backoff.NextWait(kUnavailable, absl::InfiniteDuration()));
}

TEST(BackoffTest, OnlyUnavailableIsRetried) {
  Backoff backoff({});
  for (const absl::Status& status :
       {absl::InternalError(""), absl::ResourceExhaustedError(""), absl::DeadlineExceededError(""),
        absl::InvalidArgumentError(""), absl::CancelledError("")}) {
    EXPECT_FALSE(backoff.NextWait(status, absl::InfiniteDuration())) << status;
  }
}

TEST(BackoffTest, NeverShorterThanTheServersDelay) {
  v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  v1::StatusDetails details;
  google::protobuf::Any* any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  const absl::Status status =
      ErrorWithDetails(absl::StatusCode::kUnavailable, "full", details.SerializeAsString());
  for (int i = 0; i < 100; ++i) {
    Backoff backoff({});
    const std::optional<absl::Duration> wait = backoff.NextWait(status, absl::InfiniteDuration());
    ASSERT_TRUE(wait);
    EXPECT_GE(*wait, absl::Seconds(2));
    EXPECT_LE(*wait, absl::Seconds(3));
  }
}

TEST(BackoffTest, AWaitMustLeaveTime) {
  Backoff backoff({.backoff_initial = absl::Seconds(1)});
  EXPECT_FALSE(backoff.NextWait(kUnavailable, absl::Milliseconds(400)));
}

}  // namespace
}  // namespace gemm::client
