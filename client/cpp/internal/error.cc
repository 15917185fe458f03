#include "client/cpp/internal/error.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gemm/v1/error_details.pb.h"
#include "gemmd/error_detail.h"

namespace gemm {
namespace {

// Where a status keeps its details, and what prefixes the types of the details themselves.
constexpr char kPayloadUrl[] = "type.googleapis.com/google.rpc.Status";
constexpr char kTypePrefix[] = "type.googleapis.com/google.rpc.";

// An Any cannot pack these messages itself: it would name them gemm.v1.
template <typename Message>
void AddDetail(const char* name, const Message& message, v1::StatusDetails& details) {
  google::protobuf::Any* any = details.add_details();
  any->set_type_url(absl::StrCat(kTypePrefix, name));
  message.SerializeToString(any->mutable_value());
}

template <typename Message>
bool ReadDetail(const google::protobuf::Any& any, const char* name, Message& message) {
  return any.type_url() == absl::StrCat(kTypePrefix, name) && message.ParseFromString(any.value());
}

}  // namespace

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  v1::StatusDetails details;
  if (!payload.has_value() || !details.ParseFromString(std::string(*payload))) return std::nullopt;

  std::optional<ErrorDetail> result;
  for (const google::protobuf::Any& any : details.details()) {
    v1::ErrorInfo info;
    v1::RetryInfo retry;
    v1::BadRequest bad_request;
    ErrorDetail detail = result.value_or(ErrorDetail{});
    if (ReadDetail(any, "ErrorInfo", info)) {
      detail.reason = info.reason();
    } else if (ReadDetail(any, "RetryInfo", retry)) {
      detail.retry_delay = absl::Seconds(retry.retry_delay().seconds()) +
                           absl::Nanoseconds(retry.retry_delay().nanos());
    } else if (ReadDetail(any, "BadRequest", bad_request)) {
      if (bad_request.field_violations_size() > 0) {
        detail.field = bad_request.field_violations(0).field();
      }
    } else {
      continue;
    }
    result = std::move(detail);
  }
  return result;
}

namespace client {
namespace {

v1::StatusDetails NewDetails(absl::StatusCode code, const std::string& message,
                             const std::string& reason) {
  v1::StatusDetails details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("gemmd");
  AddDetail("ErrorInfo", info, details);
  return details;
}

}  // namespace

absl::Status InvalidField(const std::string& field, const std::string& fault) {
  const std::string message = absl::StrCat(field, " ", fault);
  v1::StatusDetails details =
      NewDetails(absl::StatusCode::kInvalidArgument, message, "INVALID_REQUEST");
  v1::BadRequest bad_request;
  v1::BadRequest::FieldViolation* violation = bad_request.add_field_violations();
  violation->set_field(field);
  violation->set_description(fault);
  AddDetail("BadRequest", bad_request, details);
  return ErrorWithDetails(absl::StatusCode::kInvalidArgument, message, details.SerializeAsString());
}

absl::Status ErrorWithReason(absl::StatusCode code, const std::string& reason,
                             const std::string& message) {
  return ErrorWithDetails(code, message, NewDetails(code, message, reason).SerializeAsString());
}

absl::Status ErrorWithDetails(absl::StatusCode code, const std::string& message,
                              const std::string& details) {
  absl::Status status(code, message);
  if (!details.empty()) status.SetPayload(kPayloadUrl, absl::Cord(details));
  return status;
}

absl::Status Reword(const absl::Status& status, const std::string& message) {
  absl::Status reworded(status.code(), message);
  status.ForEachPayload([&reworded](absl::string_view url, const absl::Cord& payload) {
    reworded.SetPayload(url, payload);
  });
  return reworded;
}

}  // namespace client
}  // namespace gemm
