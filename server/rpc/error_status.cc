#include "server/rpc/error_status.h"

#include <string>

#include "absl/time/time.h"
#include "gemm/v1/error_details.pb.h"
#include "server/reason.h"

namespace gemm {
namespace {

constexpr char kTypeUrlPrefix[] = "type.googleapis.com/google.rpc.";

static_assert(static_cast<int>(absl::StatusCode::kInvalidArgument) ==
              static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));

void AddDetail(const char* name, const google::protobuf::MessageLite& detail,
               v1::StatusDetails& details) {
  google::protobuf::Any* any = details.add_details();
  any->set_type_url(std::string(kTypeUrlPrefix) + name);
  any->set_value(detail.SerializeAsString());
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message());
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason) return grpc::Status(code, message);

  v1::StatusDetails details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  v1::ErrorInfo info;
  info.set_reason(std::string(NameOf(*reason)));
  info.set_domain("gemmd");
  const std::string field = FieldOf(status);
  if (!field.empty()) (*info.mutable_metadata())["field"] = field;
  AddDetail("ErrorInfo", info, details);
  if (!field.empty()) {
    v1::BadRequest bad_request;
    v1::BadRequest::FieldViolation* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(message);
    AddDetail("BadRequest", bad_request, details);
  }
  if (const std::optional<absl::Duration> delay = RetryDelayOf(*reason)) {
    v1::RetryInfo retry;
    absl::Duration rest;
    retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(*delay, absl::Seconds(1), &rest));
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
    AddDetail("RetryInfo", retry, details);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace gemm
