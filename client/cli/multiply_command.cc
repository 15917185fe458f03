#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/matmul_shape.h"
#include "client/cli/npy.h"
#include "client/cli/phases.h"
#include "client/cli/progress.h"
#include "client/cli/tcp_traffic.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

struct Inputs {
  NpyArray a;
  NpyArray b;
  std::optional<NpyArray> c;
  MatmulShape shape;
  MatmulView c_view;
};

absl::StatusOr<Inputs> ReadInputs(const MultiplyCommand& command) {
  absl::StatusOr<NpyArray> a = NpyArray::Open(command.a_path);
  if (!a.ok()) return a.status();
  // One mapping for one file: the client sees that it is the same memory and sends it once.
  absl::StatusOr<NpyArray> b =
      command.b_path == command.a_path ? a : NpyArray::Open(command.b_path);
  if (!b.ok()) return b.status();
  Inputs inputs{*std::move(a), *std::move(b), std::nullopt, {}, {}};

  const auto operand = [](const NpyArray& x, bool transpose) {
    return MatmulOperand{x.path(), x.shape(), x.fortran_order(), transpose};
  };
  const auto check_type = [&inputs](const NpyArray& x) {
    if (x.element_type() == inputs.a.element_type()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "types differ: ", inputs.a.path(), " is ", std::string(NameOf(inputs.a.element_type())),
        ", ", x.path(), " is ", std::string(NameOf(x.element_type()))));
  };
  if (const absl::Status status = check_type(inputs.b); !status.ok()) return status;
  const absl::StatusOr<MatmulShape> shape =
      ShapeOfMatmul(operand(inputs.a, command.transpose_a), operand(inputs.b, command.transpose_b));
  if (!shape.ok()) return shape.status();
  inputs.shape = *shape;

  if (command.c_path.empty()) return inputs;
  absl::StatusOr<NpyArray> c = NpyArray::Open(command.c_path);
  if (!c.ok()) return c.status();
  if (const absl::Status status = check_type(*c); !status.ok()) return status;
  const absl::StatusOr<MatmulView> view = ViewOfAddend(operand(*c, false), *shape);
  if (!view.ok()) return view.status();
  inputs.c = *std::move(c);
  inputs.c_view = *view;
  return inputs;
}

// From an n x m matrix to the m x n one.
template <typename T>
std::vector<T> Transpose(std::span<const T> stored, int64_t m, int64_t n) {
  std::vector<T> result(stored.size());
  if (result.empty()) return result;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) result[i * n + j] = stored[j * m + i];
  }
  return result;
}

// On a terminal, where more often would be hard to read.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(500);

template <typename T>
absl::StatusOr<MultiplyReport> MultiplyWithProgress(const Client& client,
                                                    const MultiplyArgs<T>& args, bool enabled) {
  absl::StatusOr<MultiplyReport> result;
  absl::Notification over;
  client.MultiplyAsync(args, [&](absl::StatusOr<MultiplyReport> report) {
    result = std::move(report);
    over.Notify();
  });
  const absl::Time start = absl::Now();
  const bool same = args.a.data.data() == args.b.data.data();
  TransferProgress progress(
      args.a.data.size_bytes() + (same ? 0 : args.b.data.size_bytes()) + args.c.data.size_bytes(),
      args.d.data.size_bytes());
  ProgressLine line(enabled);
  absl::Duration next = 2 * kProgressInterval;  // what is over by then needs none
  while (!over.WaitForNotificationWithTimeout(next)) {
    line.Show(progress.Describe(absl::Now() - start, TcpTrafficNow()));
    next = kProgressInterval;
  }
  return result;
}

template <typename T>
absl::StatusOr<MultiplyReport> Multiply(const Client& client, const MultiplyCommand& command,
                                        const Inputs& inputs, NpyWriter& output) {
  MultiplyArgs<T> args;
  args.m = inputs.shape.m;
  args.n = inputs.shape.n;
  args.k = inputs.shape.k;
  args.batch_count = inputs.shape.batch_count;
  args.alpha = command.alpha;
  args.beta = command.beta;
  args.precision = command.precision;
  args.a.data = inputs.a.elements<T>();
  args.a.transposed = inputs.shape.a.transposed;
  args.a.batch_stride = inputs.shape.a.batch_stride;
  args.b.data = inputs.b.elements<T>();
  args.b.transposed = inputs.shape.b.transposed;
  args.b.batch_stride = inputs.shape.b.batch_stride;
  std::vector<T> reordered_c;
  if (inputs.c) {
    args.c.data = inputs.c->elements<T>();
    args.c.batch_stride = inputs.c_view.batch_stride;
    if (inputs.c_view.transposed) {
      reordered_c = Transpose(args.c.data, args.m, args.n);
      args.c.data = reordered_c;
    }
  }
  args.d.data = output.elements<T>();
  return MultiplyWithProgress(client, args, command.progress);
}

void PrintReport(const MultiplyCommand& command, const Inputs& inputs, const MultiplyReport& report,
                 bool json_wanted) {
  const double seconds = absl::ToDoubleSeconds(report.wall);
  const double bytes = static_cast<double>(report.request_bytes + report.reply_bytes);
  const double gigabytes_per_second = bytes / seconds * 1e-9;
  const double flops = 2.0 * static_cast<double>(inputs.shape.m) *
                       static_cast<double>(inputs.shape.n) * static_cast<double>(inputs.shape.k) *
                       static_cast<double>(inputs.shape.batch_count);
  const std::string type(NameOf(inputs.a.element_type()));
  const auto phases = PhasesOf(report);
  if (json_wanted) {
    nlohmann::json json = {
        {"output", command.d_path},
        {"shape", inputs.shape.result},
        {"m", inputs.shape.m},
        {"n", inputs.shape.n},
        {"k", inputs.shape.k},
        {"batch_count", inputs.shape.batch_count},
        {"dtype", type},
        {"kernel", report.kernel},
        {"device", report.device},
        {"device_index", report.device_index},
        {"batch_problems", report.batch_problems},
        {"attempts", report.attempts},
        {"request_bytes", report.request_bytes},
        {"reply_bytes", report.reply_bytes},
        {"total_seconds", seconds},
        {"gigabytes_per_second", gigabytes_per_second},
        {"gigaflops", flops / seconds * 1e-9},
    };
    for (size_t i = 0; i < phases.size(); ++i) {
      json["server_seconds"][kPhaseNames[i]] = absl::ToDoubleSeconds(phases[i]);
    }
    PrintJson(json);
    return;
  }
  absl::PrintF("%s: %s %s\n", command.d_path, ToString(inputs.shape.result), type);
  absl::PrintF("  kernel    %s\n", report.kernel.empty() ? "none was needed" : report.kernel);
  if (!report.device.empty()) {
    absl::PrintF("  device    %s (%d), batch of %d\n", report.device, report.device_index,
                 report.batch_problems);
  }
  for (size_t i = 0; i < phases.size(); ++i) {
    absl::PrintF("  %-9s %s\n", kPhaseNames[i], FormatTime(phases[i]));
  }
  absl::PrintF("  total     %s, %s at %.2f GB/s", FormatTime(report.wall), FormatBytes(bytes),
               gigabytes_per_second);
  if (report.attempts > 1) absl::PrintF(", %d attempts", report.attempts);
  absl::PrintF("\n");
}

}  // namespace

ExitCode RunMultiply(const ClientOptions& options, const MultiplyCommand& command, bool json) {
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<Inputs> inputs = ReadInputs(command);
  if (!inputs.ok()) return FailInput(inputs.status(), json);
  absl::StatusOr<NpyWriter> output =
      NpyWriter::Create(command.d_path, inputs->a.element_type(), inputs->shape.result);
  if (!output.ok()) return FailInput(output.status(), json);

  const absl::StatusOr<MultiplyReport> report =
      inputs->a.element_type() == ElementType::kF32
          ? Multiply<float>(*client, command, *inputs, *output)
          : Multiply<double>(*client, command, *inputs, *output);
  if (!report.ok()) return FailCall(*client, options, report.status(), json);
  if (const absl::Status status = output->Commit(); !status.ok()) return FailInput(status, json);
  PrintReport(command, *inputs, *report, json);
  return kSuccess;
}

}  // namespace gemm::cli
