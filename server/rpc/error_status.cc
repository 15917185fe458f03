#include "server/rpc/error_status.h"

#include <string>

#include "absl/time/time.h"
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

v1::StatusDetails ToStatusDetails(const absl::Status& status) {
  const std::string message(status.message());
  v1::StatusDetails details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason) return details;
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
  return details;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const v1::StatusDetails details = ToStatusDetails(status);
  // Without details there is nothing that the status itself does not say.
  return grpc::Status(code, details.message(),
                      details.details().empty() ? std::string() : details.SerializeAsString());
}

}  // namespace gemm
