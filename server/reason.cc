#include "server/reason.h"

#include <array>
#include <utility>

#include "absl/strings/cord.h"

namespace gemm {
namespace {

constexpr char kReasonUrl[] = "gemmd/reason";
constexpr char kFieldUrl[] = "gemmd/field";

struct ReasonInfo {
  std::string_view name;
  absl::StatusCode code;
};

// In the order of the enumeration.
constexpr std::array<ReasonInfo, kReasonCount> kReasons = {{
    {"INVALID_REQUEST", absl::StatusCode::kInvalidArgument},
    {"MESSAGE_TOO_LARGE", absl::StatusCode::kResourceExhausted},
    {"RESULT_TOO_LARGE", absl::StatusCode::kResourceExhausted},
    {"MEMORY_TOO_SMALL", absl::StatusCode::kResourceExhausted},
    {"QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted},
    {"QUEUE_FULL", absl::StatusCode::kUnavailable},
    {"MEMORY_FULL", absl::StatusCode::kUnavailable},
    {"MATRIX_BUSY", absl::StatusCode::kUnavailable},
    {"DRAINING", absl::StatusCode::kUnavailable},
    {"MATRIX_NOT_FOUND", absl::StatusCode::kNotFound},
    {"MATRIX_EXISTS", absl::StatusCode::kAlreadyExists},
    {"MATRIX_NOT_SEALED", absl::StatusCode::kFailedPrecondition},
    {"DEADLINE_PASSED", absl::StatusCode::kDeadlineExceeded},
    {"RECEIVE_TIMEOUT", absl::StatusCode::kDeadlineExceeded},
    {"CALLER_GONE", absl::StatusCode::kCancelled},
    {"UNSUPPORTED", absl::StatusCode::kUnimplemented},
    {"DEVICE_FAILED", absl::StatusCode::kInternal},
    {"DEVICE_LOST", absl::StatusCode::kInternal},
}};
static_assert(static_cast<int>(Reason::kDeviceLost) == kReasonCount - 1,
              "kReasons must list every reason, in order");

const ReasonInfo& InfoOf(Reason reason) { return kReasons[static_cast<size_t>(reason)]; }

}  // namespace

std::string_view NameOf(Reason reason) { return InfoOf(reason).name; }

absl::Status ErrorWithReason(Reason reason, const std::string& message, std::string field) {
  absl::Status status(InfoOf(reason).code, message);
  status.SetPayload(kReasonUrl, absl::Cord(std::string(NameOf(reason))));
  if (!field.empty()) status.SetPayload(kFieldUrl, absl::Cord(std::move(field)));
  return status;
}

std::optional<Reason> ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  if (!payload.has_value()) return std::nullopt;
  for (int i = 0; i < kReasonCount; ++i) {
    const std::string_view name = kReasons[i].name;
    if (*payload == absl::string_view(name.data(), name.size())) return static_cast<Reason>(i);
  }
  return std::nullopt;
}

std::string FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

std::optional<absl::Duration> RetryDelayOf(Reason reason) {
  switch (reason) {
    // About the time that a full queue, or the memory of one large call, takes to clear.
    case Reason::kQueueFull:
    case Reason::kMemoryFull:
      return absl::Milliseconds(100);
    // About the time of one large WriteRows.
    case Reason::kMatrixBusy:
      return absl::Milliseconds(20);
    default:
      return std::nullopt;
  }
}

}  // namespace gemm
