#include "client/cli/failure.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/format.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

constexpr std::pair<std::string_view, const char*> kHints[] = {
    {"MESSAGE_TOO_LARGE",
     "gemmctl put has no such limit: put the operands on the server, and multiply @NAME; or raise "
     "the server's --message-limit"},
    {"RESULT_TOO_LARGE",
     "a result that stays on the server has no such limit: multiply with --result NAME, then get "
     "it; "
     "or raise the server's --message-limit"},
    {"MEMORY_TOO_SMALL",
     "start the server with more memory for it (--host-memory, --device-memory, --matrix-memory), "
     "or work in parts"},
    {"MATRIX_NOT_FOUND",
     "it has expired, was deleted, or the server has restarted since: gemmctl list shows what is "
     "there; put it again"},
    {"MATRIX_EXISTS",
     "delete it first (gemmctl rm), or choose another name; put --exist-ok completes an upload of "
     "the same file"},
    {"MATRIX_NOT_SEALED", "its upload was interrupted: gemmctl put --exist-ok completes it"},
    {"MATRIX_BUSY", "another call is making or writing it: try again later"},
    {"QUOTA_EXCEEDED", "gemmctl list shows your matrices: delete some (gemmctl rm)"},
    {"QUEUE_FULL", "the server is busy: try again later, or raise --retries and --timeout"},
    {"MEMORY_FULL",
     "the server's memory is in use: try again later, or raise --retries and --timeout"},
    {"DRAINING",
     "the server is shutting down: use another one, or try again when it has restarted"},
    {"UNSUPPORTED", "gemmctl explain says which kernels there are and why each would not run"},
    {"DEVICE_FAILED", "the server's log says more; the same call may work on another server"},
    {"DEVICE_LOST", "the server has lost its device and must be restarted; its log says more"},
};

std::string HintFor(const Client& client, const ClientOptions& options, const absl::Status& status,
                    const ErrorDetail& detail) {
  for (const auto& [reason, hint] : kHints) {
    if (detail.reason == reason) return hint;
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::StrCat("if gemmctl health is quick, the call takes longer than --timeout (",
                        absl::FormatDuration(options.timeout),
                        "); if not, the host is down, or a firewall drops its packets");
  }
  if (absl::IsUnimplemented(status) && detail.reason.empty()) {
    const absl::StatusOr<ServerInfo> info = client.GetServerInfo();
    if (!info.ok()) return {};
    return absl::StrCat("the server is gemmd ", info->version,
                        " and this is gemmctl " GEMMD_VERSION
                        ": it takes a newer server, or an older gemmctl");
  }
  return {};
}

void PrintErrorJson(const absl::Status& status, const ErrorDetail& detail,
                    const std::string& hint) {
  PrintJson({{"error",
              {{"code", absl::StatusCodeToString(status.code())},
               {"reason", detail.reason},
               {"field", detail.field},
               {"message", std::string(status.message())},
               {"hint", hint}}}});
}

}  // namespace

void PrintError(const std::string& message) { absl::FPrintF(stderr, "gemmctl: %s\n", message); }

ExitCode FailInput(const absl::Status& status, bool json) {
  PrintError(std::string(status.message()));
  if (json) PrintErrorJson(status, GetErrorDetail(status).value_or(ErrorDetail()), "");
  return kBadInput;
}

ExitCode FailCall(const Client& client, const ClientOptions& options, const absl::Status& status,
                  bool json) {
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail());
  if (absl::IsInvalidArgument(status) &&
      (detail.field == "name" || detail.field == "result.name")) {
    return FailInput(status, json);
  }
  const std::string hint = HintFor(client, options, status, detail);
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()),
                          detail.reason.empty() ? "" : absl::StrCat(" (", detail.reason, ")"), ": ",
                          std::string(status.message()), hint.empty() ? "" : "\n  ", hint));
  if (json) PrintErrorJson(status, detail, hint);
  return kCallFailed;
}

}  // namespace gemm::cli
