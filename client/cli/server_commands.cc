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
                         {"matrix_memory_bytes", info.matrix_memory_bytes},
                         {"matrix_memory_used_bytes", info.matrix_memory_used_bytes},
                         {"ttl_limit_seconds", absl::ToDoubleSeconds(info.time_to_live_limit)},
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
  absl::PrintF("gemmd %s (%s), up %s\n", info.version, info.commit, FormatSeconds(info.uptime));
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
  absl::PrintF("  matrices  %s of %s, kept unused for up to %s\n",
               FormatBytes(static_cast<double>(info.matrix_memory_used_bytes)),
               FormatBytes(static_cast<double>(info.matrix_memory_bytes)),
               absl::FormatDuration(info.time_to_live_limit));
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
    std::string verdict = "can";
    if (!candidate.why_not.empty()) {
      verdict = "cannot: " + candidate.why_not;
    } else if (candidate.modelled > absl::ZeroDuration()) {
      verdict = FormatTime(candidate.modelled) + " modelled";
    }
    absl::PrintF("  %c %-36s %s\n", candidate.kernel == explanation.chosen ? '*' : ' ',
                 candidate.kernel, verdict);
  }
}

// Connects, calls, and prints what comes back.
template <typename Result>
ExitCode Ask(const ClientOptions& options, bool json,
             absl::FunctionRef<absl::StatusOr<Result>(const Client&)> call,
             absl::FunctionRef<void(const Result&)> print) {
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<Result> result = call(*client);
  if (!result.ok()) return FailCall(*client, options, result.status(), json);
  print(*result);
  return kSuccess;
}

}  // namespace

ExitCode RunInfo(const ClientOptions& options, bool json) {
  return Ask<ServerInfo>(
      options, json, [](const Client& client) { return client.GetServerInfo(); },
      json ? PrintInfoJson : PrintInfo);
}

ExitCode RunExplain(const ClientOptions& options, const ExplainArgs& args, bool json) {
  return Ask<Explanation>(
      options, json, [&args](const Client& client) { return client.Explain(args); },
      json ? PrintExplanationJson : PrintExplanation);
}

ExitCode RunHealth(const ClientOptions& options, const std::string& service, bool json) {
  bool serving = false;
  const ExitCode code = Ask<HealthState>(
      options, json, [&service](const Client& client) { return client.CheckHealth(service); },
      [&](HealthState state) {
        serving = state == HealthState::kServing;
        const std::string name(NameOf(state));
        if (json) {
          PrintJson({{"status", name}});
        } else {
          absl::PrintF("%s\n", name);
        }
      });
  return code == kSuccess && !serving ? kCallFailed : code;
}

}  // namespace gemm::cli
