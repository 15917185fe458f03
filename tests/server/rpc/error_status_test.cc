#include "server/rpc/error_status.h"

#include <gtest/gtest.h>

#include "gemm/v1/error_details.pb.h"
#include "server/reason.h"

namespace gemm {
namespace {

v1::StatusDetails Details(const grpc::Status& status) {
  v1::StatusDetails details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(ErrorStatusTest, CarriesReasonAndField) {
  const grpc::Status status =
      ToGrpcStatus(ErrorWithReason(Reason::kInvalidRequest, "product.m: -1", "product.m"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const v1::StatusDetails details = Details(status);
  ASSERT_EQ(details.details_size(), 2);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  v1::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(details.details(0).value()));
  EXPECT_EQ(info.reason(), "INVALID_REQUEST");
  EXPECT_EQ(info.domain(), "gemmd");
  EXPECT_EQ(info.metadata().at("field"), "product.m");
  v1::BadRequest bad_request;
  ASSERT_TRUE(bad_request.ParseFromString(details.details(1).value()));
  EXPECT_EQ(bad_request.field_violations(0).field(), "product.m");
}

TEST(ErrorStatusTest, SaysWhenToTryAgainOnlyWhereItHelps) {
  const grpc::Status full = ToGrpcStatus(ErrorWithReason(Reason::kQueueFull, "full"));
  EXPECT_EQ(full.error_code(), grpc::StatusCode::UNAVAILABLE);
  bool has_retry = false;
  const v1::StatusDetails full_details = Details(full);
  for (const auto& detail : full_details.details()) {
    has_retry |= detail.type_url() == "type.googleapis.com/google.rpc.RetryInfo";
  }
  EXPECT_TRUE(has_retry);
  const grpc::Status too_large = ToGrpcStatus(ErrorWithReason(Reason::kMessageTooLarge, "large"));
  EXPECT_EQ(too_large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Details(too_large).details_size(), 1);
}

TEST(ErrorStatusTest, EveryReasonHasACodeAndAName) {
  for (int i = 0; i < kReasonCount; ++i) {
    const absl::Status status = ErrorWithReason(static_cast<Reason>(i), "text");
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.code(), absl::StatusCode::kUnknown) << i;
    EXPECT_EQ(ReasonOf(status), static_cast<Reason>(i));
    EXPECT_FALSE(NameOf(static_cast<Reason>(i)).empty());
  }
}

}  // namespace
}  // namespace gemm
