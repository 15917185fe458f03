#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/perf/interrupt.h"
#include "client/cli/perf/perf_report.h"
#include "client/cli/perf/upload.h"
#include "client/cli/progress.h"
#include "gemmd/tune_process.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

void Print(const ServerInfo& server, const ClientOptions& options, const PerfCommand& command,
           const Upload& upload, const UploadResult& result) {
  PrintServer(server, options.address);
  absl::PrintF("  link      %s, %d channel%s\n", LinkOf(options.address), command.channels,
               command.channels == 1 ? "" : "s");
  absl::PrintF("  client    gemmctl %s, %d cores\n", GEMMD_VERSION,
               std::thread::hardware_concurrency());
  absl::PrintF("  matrix    %d x %d f32, %s, for %s, seed %d\n", upload.rows(), Upload::kColumns,
               FormatBytes(static_cast<double>(upload.bytes())),
               absl::FormatDuration(command.duration), command.seed);
  absl::PrintF("\n%4s %10s %10s %10s\n", "", "transfers", "mean GB/s", "best GB/s");
  for (const auto& [name, tally] : {std::pair("put", result.put), std::pair("get", result.get)}) {
    absl::PrintF("%4s %10d %10.3f %10.3f\n", name, tally.transfers,
                 result.gigabytes_per_second(tally), result.best_gigabytes_per_second(tally));
  }
}

nlohmann::json JsonOf(const UploadResult& result, const TransferTally& tally) {
  return {{"transfers", tally.transfers},
          {"seconds", absl::ToDoubleSeconds(tally.total)},
          {"gigabytes_per_second", result.gigabytes_per_second(tally)},
          {"best_gigabytes_per_second", result.best_gigabytes_per_second(tally)}};
}

}  // namespace

ExitCode RunPerfUpload(const ClientOptions& options, const PerfCommand& command, bool json) {
  PollConnectionsApart();
  ClientOptions wide = options;
  wide.channels = command.channels;
  const absl::StatusOr<Client> client = Client::Connect(wide);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<ServerInfo> server = client->GetServerInfo();
  if (!server.ok()) return FailCall(*client, options, server.status(), json);
  Upload upload(command.upload_bytes, command.seed);
  NoteSignals();
  const absl::StatusOr<UploadResult> result = [&] {
    ProgressLine line(command.progress);
    return upload.Run(*client, command.duration, [&](const UploadResult& so_far) {
      line.Show(absl::StrFormat("%d there and back, put at %.2f GB/s, get at %.2f GB/s",
                                so_far.get.transfers, so_far.gigabytes_per_second(so_far.put),
                                so_far.gigabytes_per_second(so_far.get)));
      return !Interrupted();
    });
  }();
  if (!result.ok()) return FailCall(*client, options, result.status(), json);
  if (json) {
    PrintJson({{"server", ServerJson(*server, options.address)},
               {"client", ClientJson()},
               {"link",
                {{"kind", LinkOf(options.address)},
                 {"channels", command.channels},
                 {"road", "resident"}}},
               {"matrix",
                {{"rows", upload.rows()},
                 {"columns", Upload::kColumns},
                 {"dtype", "f32"},
                 {"bytes", upload.bytes()}}},
               {"put", JsonOf(*result, result->put)},
               {"get", JsonOf(*result, result->get)},
               {"interrupted", Interrupted()}});
  } else {
    Print(*server, options, command, upload, *result);
  }
  EndIfInterrupted();
  return kSuccess;
}

}  // namespace gemm::cli
