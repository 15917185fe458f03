#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/perf/interrupt.h"
#include "client/cli/perf/load.h"
#include "client/cli/perf/perf_report.h"
#include "client/cli/perf/workload.h"
#include "client/cli/progress.h"
#include "gemmd/tune_process.h"
#include "nlohmann/json.hpp"
#include "proto/limits.h"

namespace gemm::cli {
namespace {

absl::Status AskServer(const Client& client, PerfSetting& setting) {
  absl::StatusOr<ServerInfo> info = client.GetServerInfo();
  if (!info.ok()) return info.status();
  setting.server = *std::move(info);
  for (const MixShape& shape : setting.shapes) {
    absl::StatusOr<Explanation> explanation = client.Explain({.m = shape.m,
                                                              .n = shape.n,
                                                              .k = shape.k,
                                                              .element_type = shape.type,
                                                              .transpose_a = shape.transpose_a,
                                                              .transpose_b = shape.transpose_b});
    if (!explanation.ok()) return explanation.status();
    setting.explanations.push_back(*std::move(explanation));
  }
  return absl::OkStatus();
}

// Calls as the load will, with every product of one shape, and checks what comes back.
absl::Status CheckShape(const Client& client, const Workload& workload, size_t shape, int batch) {
  const int products = std::max(batch, 1);
  const int64_t d_bytes = workload.mix().shapes()[shape].d_bytes();
  const auto d = std::make_unique<std::byte[]>(products * d_bytes);
  std::vector<AnyMultiplyArgs> args;
  args.reserve(products);
  for (int i = 0; i < products; ++i) {
    args.push_back(workload.Args(shape, i, d.get() + i * d_bytes));
  }
  if (batch == 0) {
    const auto multiply = [&client](const auto& one) { return client.Multiply(one).status(); };
    if (absl::Status status = std::visit(multiply, args[0]); !status.ok()) return status;
  } else {
    const absl::StatusOr<MultiplyBatchReport> report = client.MultiplyBatch(args);
    if (!report.ok()) return report.status();
    for (const auto& product : report->products) {
      if (!product.ok()) return product.status();
    }
  }
  for (int i = 0; i < products; ++i) {
    absl::Status status = workload.Check(shape, i, d.get() + i * d_bytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// A server that computes something else is not worth measuring.
absl::Status CheckShapes(const Client& client, const Workload& workload, PerfSetting& setting) {
  for (size_t i = 0; i < setting.shapes.size(); ++i) {
    absl::Status status = CheckShape(client, workload, i, setting.load.batch);
    if (!status.ok()) return status;
    ++setting.check_calls;
  }
  return absl::OkStatus();
}

// Before memory is taken for it.
absl::Status CheckBatchSize(const ShapeMix& mix, int batch) {
  for (const MixShape& shape : mix.shapes()) {
    const int64_t bytes = std::max(batch, 1) * (shape.payload_bytes() - shape.d_bytes());
    if (bytes > kMaxMessageBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the operands of a call with ", shape.name(),
                                                     " would be ", bytes,
                                                     " bytes, more than any message can hold"));
    }
  }
  return absl::OkStatus();
}

// On a terminal, where more often would be hard to read.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(500);

// One load point, shown as it goes.
class PointRun {
 public:
  PointRun(Load& load, const PerfSetting& setting, const PerfCommand& command)
      : load_(load), setting_(setting), command_(command) {}

  PerfPoint Run(size_t index) {
    const LoadPoint& point = command_.points[index];
    name_ = absl::StrFormat("%s (%d of %d)", Describe(point), index + 1, command_.points.size());
    PerfPoint result{.point = point};
    ProgressLine line(command_.progress);
    if (setting_.warmup > absl::ZeroDuration()) {
      result.warmup_calls = Run(line, point, setting_.warmup, 2 * index, ", warming up").calls();
    }
    if (!Interrupted()) {
      result.tally = Run(line, point, setting_.duration, 2 * index + 1, "");
    }
    result.interrupted = Interrupted();
    result.slo_broken = Broken(command_.slo, result.tally);
    return result;
  }

 private:
  Tally Run(ProgressLine& line, const LoadPoint& point, absl::Duration duration, uint64_t stream,
            const char* note) {
    absl::Duration next = kProgressInterval;
    return load_.Run(point, duration, stream, [&](const LoadProgress& progress) {
      if (progress.elapsed >= next) {
        next = progress.elapsed + kProgressInterval;
        line.Show(absl::StrFormat(
            "%s%s: %s of %s, %d calls, %.0f/s, %d errors", name_, note,
            absl::FormatDuration(absl::Trunc(progress.elapsed, absl::Milliseconds(100))),
            absl::FormatDuration(duration), progress.calls,
            static_cast<double>(progress.calls) / absl::ToDoubleSeconds(progress.elapsed),
            progress.errors));
      }
      return !Interrupted();
    });
  }

  Load& load_;
  const PerfSetting& setting_;
  const PerfCommand& command_;
  std::string name_;
};

// What the points come to.
ExitCode Judge(const std::vector<PerfPoint>& points) {
  ExitCode code = kSuccess;
  for (const PerfPoint& point : points) {
    if (point.interrupted) continue;
    if (point.tally.calls() == 0) {
      PrintError(absl::StrCat(Describe(point.point), ": no call was answered"));
      code = kCallFailed;
    }
    if (point.slo_broken.empty()) continue;
    PrintError(absl::StrCat(Describe(point.point), ": ", absl::StrJoin(point.slo_broken, "; ")));
    if (code == kSuccess) code = kSloBroken;
  }
  return code;
}

// From the first question to the verdict, with matrices on the server if there are to be any.
ExitCode Measure(const Client& client, const ClientOptions& options, const PerfCommand& command,
                 Workload& workload, PerfSetting& setting, bool json) {
  if (const absl::Status status = workload.PutMatrices(client); !status.ok()) {
    return FailCall(client, options, status, json);
  }
  if (const absl::Status status = CheckShapes(client, workload, setting); !status.ok()) {
    return FailCall(client, options, status, json);
  }
  const absl::StatusOr<std::unique_ptr<Load>> load = Load::Create(setting.load, workload);
  if (!load.ok()) return FailInput(load.status(), json);

  if (!json) {
    PrintHeader(setting);
    PrintRowTitles(setting, command.points[0]);
  }
  std::vector<PerfPoint> points;
  PointRun run(**load, setting, command);
  for (size_t i = 0; i < command.points.size() && !Interrupted(); ++i) {
    points.push_back(run.Run(i));
    if (!json) PrintRow(setting, points.back());
    if (const absl::Status status = (*load)->CheckResults(); !status.ok()) {
      return FailCall(client, options, status, json);
    }
  }
  if (json) {
    PrintJson(PerfJson(setting, points));
  } else {
    PrintSplit(setting, points);
  }
  return Judge(points);
}

}  // namespace

ExitCode RunPerf(const ClientOptions& options, const PerfCommand& command, bool json) {
  ShapeMix mix = command.mix;
  if (command.resident_b) mix.KeepBOnServer();
  if (const absl::Status status = CheckBatchSize(mix, command.batch); !status.ok()) {
    return FailInput(status, json);
  }
  ClientOptions each = options;
  int clients = command.channels;
  const bool by_panels = mix.by_panels() && command.batch == 0 && !command.points[0].open();
  if (by_panels) {  // which spread over the connections of one client
    PollConnectionsApart();
    each.channels = command.channels;
    clients = 1;
  }
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  PerfSetting setting{.load = {.client = each,
                               .batch = command.batch,
                               .channels = clients,
                               .outstanding = command.outstanding,
                               .seed = command.seed},
                      .duration = command.duration,
                      .warmup = command.warmup,
                      .by_panels = by_panels,
                      .shapes = mix.shapes()};
  if (const absl::Status status = AskServer(*client, setting); !status.ok()) {
    return FailCall(*client, options, status, json);
  }
  Workload workload(mix, /*copies=*/std::max(command.batch, 1), command.seed);
  NoteSignals();
  const ExitCode code = Measure(*client, options, command, workload, setting, json);
  workload.DeleteMatrices(*client);
  EndIfInterrupted();
  return code;
}

}  // namespace gemm::cli
