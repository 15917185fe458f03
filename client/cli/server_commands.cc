#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

std::vector<std::string> NamesOf(const std::vector<ElementType>& types) {
  std::vector<std::string> names;
  names.reserve(types.size());
  for (const ElementType type : types) names.emplace_back(NameOf(type));
  return names;
}

void PrintInfoJson(const ServerInfo& info) {
  nlohmann::json json = {{"version", info.version},
                         {"commit", info.commit},
                         {"uptime_seconds", absl::ToDoubleSeconds(info.uptime)},
                         {"message_limit_bytes", info.message_limit_bytes},
                         {"dtypes", NamesOf(info.element_types)},
                         {"kernels", info.kernels},
                         {"devices", nlohmann::json::array()}};
  for (const DeviceSummary& device : info.devices) {
    json["devices"].push_back({{"index", device.index},
                               {"name", device.name},
                               {"uuid", device.uuid},
                               {"kind", device.kind},
                               {"compute_capability", device.compute_capability},
                               {"multiprocessors", device.multiprocessors},
                               {"memory_bytes", device.memory_bytes},
                               {"healthy", device.healthy}});
  }
  PrintJson(json);
}

void PrintInfo(const ServerInfo& info) {
  absl::PrintF("gemmd %s (%s), up %s\n", info.version, info.commit,
               absl::FormatDuration(absl::Trunc(info.uptime, absl::Seconds(1))));
  for (const DeviceSummary& device : info.devices) {
    absl::PrintF("  device %d  %s, %s, %d %s, %s", device.index, device.name, device.kind,
                 device.multiprocessors, device.kind == "cpu" ? "cores" : "multiprocessors",
                 FormatBytes(static_cast<double>(device.memory_bytes)));
    if (device.compute_capability > 0) {
      absl::PrintF(", compute capability %d.%d", device.compute_capability / 10,
                   device.compute_capability % 10);
    }
    if (!device.uuid.empty()) absl::PrintF(", %s", device.uuid);
    absl::PrintF("%s\n", device.healthy ? "" : ", NOT HEALTHY");
  }
  absl::PrintF("  types     %s\n", absl::StrJoin(NamesOf(info.element_types), ", "));
  absl::PrintF("  messages  up to %s\n",
               FormatBytes(static_cast<double>(info.message_limit_bytes)));
  absl::PrintF("  kernels   %d\n", info.kernels.size());
  for (const std::string& kernel : info.kernels) absl::PrintF("    %s\n", kernel);
}

void PrintExplanationJson(const Explanation& explanation) {
  nlohmann::json json = {{"chosen", explanation.chosen},
                         {"reason", explanation.reason},
                         {"device", explanation.device},
                         {"candidates", nlohmann::json::array()}};
  for (const KernelCandidate& candidate : explanation.candidates) {
    const double seconds = absl::ToDoubleSeconds(candidate.modelled);
    json["candidates"].push_back({{"kernel", candidate.kernel},
                                  {"why_not", candidate.why_not},
                                  {"modelled_seconds", seconds}});
  }
  PrintJson(json);
}

void PrintExplanation(const Explanation& explanation) {
  absl::PrintF("%s on %s (%s)\n", explanation.chosen.empty() ? "no kernel" : explanation.chosen,
               explanation.device, explanation.reason);
  for (const KernelCandidate& candidate : explanation.candidates) {
    absl::PrintF("  %c %-36s %s\n", candidate.kernel == explanation.chosen ? '*' : ' ',
                 candidate.kernel,
                 candidate.why_not.empty() ? FormatTime(candidate.modelled) + " modelled"
                                           : "cannot: " + candidate.why_not);
  }
}

ExitCode WithClient(const ClientOptions& options,
                    absl::FunctionRef<ExitCode(const Client&)> command) {
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (client.ok()) return command(*client);
  PrintError(std::string(client.status().message()));
  return kBadInput;
}

}  // namespace

void PrintError(const std::string& message) { absl::FPrintF(stderr, "gemmctl: %s\n", message); }

ExitCode PrintFailure(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  const std::string reason =
      detail && !detail->reason.empty() ? absl::StrCat(" (", detail->reason, ")") : "";
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()), reason, ": ",
                          std::string(status.message())));
  return kCallFailed;
}

ExitCode RunInfo(const ClientOptions& options, bool json) {
  return WithClient(options, [json](const Client& client) {
    const absl::StatusOr<ServerInfo> info = client.GetServerInfo();
    if (!info.ok()) return PrintFailure(info.status());
    json ? PrintInfoJson(*info) : PrintInfo(*info);
    return kSuccess;
  });
}

ExitCode RunExplain(const ClientOptions& options, const ExplainArgs& args, bool json) {
  return WithClient(options, [&args, json](const Client& client) {
    const absl::StatusOr<Explanation> explanation = client.Explain(args);
    if (!explanation.ok()) return PrintFailure(explanation.status());
    json ? PrintExplanationJson(*explanation) : PrintExplanation(*explanation);
    return kSuccess;
  });
}

ExitCode RunHealth(const ClientOptions& options, const HealthCommand& command) {
  return WithClient(options, [&command](const Client& client) {
    const absl::StatusOr<HealthState> state = client.CheckHealth(command.service);
    if (!state.ok()) return PrintFailure(state.status());
    const std::string name(NameOf(*state));
    if (command.json) {
      PrintJson({{"status", name}});
    } else {
      absl::PrintF("%s\n", name);
    }
    return *state == HealthState::kServing ? kSuccess : kCallFailed;
  });
}

}  // namespace gemm::cli
