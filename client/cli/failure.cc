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
     "gemmctl info tells the server's limit: raise its --message-limit, or multiply in parts, "
     "since "
     "rows of A against columns of B are independent"},
    {"RESULT_TOO_LARGE",
     "gemmctl info tells the server's limit: raise its --message-limit, or multiply in parts, "
     "since "
     "rows of A against columns of B are independent"},
    {"MEMORY_TOO_SMALL", "start the server with a larger --host-memory, or multiply in parts"},
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
  const std::string hint = HintFor(client, options, status, detail);
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()),
                          detail.reason.empty() ? "" : absl::StrCat(" (", detail.reason, ")"), ": ",
                          std::string(status.message()), hint.empty() ? "" : "\n  ", hint));
  if (json) PrintErrorJson(status, detail, hint);
  return kCallFailed;
}

}  // namespace gemm::cli
