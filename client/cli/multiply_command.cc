#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/matmul_shape.h"
#include "client/cli/npy.h"
#include "client/cli/phases.h"
#include "client/cli/progress.h"
#include "client/cli/transpose.h"
#include "gemmd/tune_process.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

// What an argument stands for: a file, or a matrix on the server.
struct Operand {
  std::string name;  // as it was given
  std::optional<NpyArray> file;
  ElementType element_type = ElementType::kF32;
  MatmulOperand shape;
};

struct Inputs {
  Operand a;
  Operand b;
  std::optional<Operand> c;
  MatmulShape shape;
  MatmulView c_view;
};

bool IsOnServer(const std::string& argument) { return !argument.empty() && argument[0] == '@'; }

using MatricesByName = std::map<std::string, MatrixInfo>;

// Those that the arguments name.
absl::StatusOr<MatricesByName> AskForMatrices(const Client& client,
                                              const MultiplyCommand& command) {
  MatricesByName matrices;
  for (const std::string& argument : {command.a, command.b, command.c}) {
    if (!IsOnServer(argument) || matrices.count(argument) != 0) continue;
    absl::StatusOr<MatrixInfo> matrix = client.GetMatrix(argument.substr(1));
    if (!matrix.ok()) return matrix.status();
    matrices[argument] = *std::move(matrix);
  }
  return matrices;
}

absl::StatusOr<Operand> Find(const std::string& argument, bool transpose,
                             const MatricesByName& matrices) {
  Operand operand{.name = argument};
  if (const auto found = matrices.find(argument); found != matrices.end()) {
    const MatrixInfo& matrix = found->second;
    if (!matrix.element_type) {
      return absl::InvalidArgumentError(
          absl::StrCat(argument, ": its type is not known to this gemmctl"));
    }
    operand.element_type = *matrix.element_type;
    operand.shape = {argument, {matrix.rows, matrix.columns}, false, transpose};
    return operand;
  }
  absl::StatusOr<NpyArray> file = NpyArray::Open(argument);
  if (!file.ok()) return file.status();
  operand.element_type = file->element_type();
  operand.shape = {argument, file->shape(), file->fortran_order(), transpose};
  operand.file = *std::move(file);
  return operand;
}

absl::StatusOr<Inputs> ReadInputs(const MultiplyCommand& command, const MatricesByName& matrices) {
  absl::StatusOr<Operand> a = Find(command.a, command.transpose_a, matrices);
  if (!a.ok()) return a.status();
  absl::StatusOr<Operand> b = Find(command.b, command.transpose_b, matrices);
  if (!b.ok()) return b.status();
  // One mapping for one file: the client sees that it is the same memory and sends it once.
  if (command.b == command.a) b->file = a->file;
  Inputs inputs{*std::move(a), *std::move(b), std::nullopt, {}, {}};

  const auto check_type = [&inputs](const Operand& x) {
    if (x.element_type == inputs.a.element_type) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "types differ: ", inputs.a.name, " is ", std::string(NameOf(inputs.a.element_type)), ", ",
        x.name, " is ", std::string(NameOf(x.element_type))));
  };
  if (const absl::Status status = check_type(inputs.b); !status.ok()) return status;
  const absl::StatusOr<MatmulShape> shape = ShapeOfMatmul(inputs.a.shape, inputs.b.shape);
  if (!shape.ok()) return shape.status();
  inputs.shape = *shape;

  if (command.c.empty()) return inputs;
  absl::StatusOr<Operand> c = Find(command.c, false, matrices);
  if (!c.ok()) return c.status();
  if (const absl::Status status = check_type(*c); !status.ok()) return status;
  const absl::StatusOr<MatmulView> view = ViewOfAddend(c->shape, *shape);
  if (!view.ok()) return view.status();
  inputs.c = *std::move(c);
  inputs.c_view = *view;
  return inputs;
}

template <typename T>
MatrixIn<T> In(const Operand& operand, const MatmulView& view) {
  MatrixIn<T> in{.transposed = view.transposed, .batch_stride = view.batch_stride};
  if (operand.file) {
    in.data = operand.file->elements<T>();
  } else {
    in.matrix.name = operand.name.substr(1);
  }
  return in;
}

// `output` is null when D stays on the server.
template <typename T>
absl::StatusOr<MultiplyReport> Multiply(const Client& client, const MultiplyCommand& command,
                                        const Inputs& inputs, NpyWriter* output) {
  MultiplyArgs<T> args;
  args.m = inputs.shape.m;
  args.n = inputs.shape.n;
  args.k = inputs.shape.k;
  args.batch_count = inputs.shape.batch_count;
  args.alpha = command.alpha;
  args.beta = command.beta;
  args.precision = command.precision;
  args.a = In<T>(inputs.a, inputs.shape.a);
  args.b = In<T>(inputs.b, inputs.shape.b);
  std::vector<T> reordered_c;
  if (inputs.c) {
    args.c = In<T>(*inputs.c, inputs.c_view);
    if (args.c.transposed) {
      reordered_c = RowMajor(args.c.data, args.m, args.n);
      args.c.data = reordered_c;
      args.c.transposed = false;
    }
  }
  if (output != nullptr) {
    args.d.data = output->elements<T>();
  } else {
    args.result = command.result;
  }
  const bool same = args.a.data.data() == args.b.data.data();
  const TransferProgress progress(
      "multiplying",
      args.a.data.size_bytes() + (same ? 0 : args.b.data.size_bytes()) + args.c.data.size_bytes(),
      args.d.data.size_bytes());
  absl::StatusOr<MultiplyReport> report;
  WithProgress(command.progress, progress, [&] { report = client.Multiply(args); });
  return report;
}

void PrintReport(const MultiplyCommand& command, const Inputs& inputs, const MultiplyReport& report,
                 bool json_wanted) {
  const double seconds = absl::ToDoubleSeconds(report.wall);
  const double bytes = static_cast<double>(report.request_bytes + report.reply_bytes);
  const double gigabytes_per_second = bytes / seconds * 1e-9;
  const double flops = 2.0 * static_cast<double>(inputs.shape.m) *
                       static_cast<double>(inputs.shape.n) * static_cast<double>(inputs.shape.k) *
                       static_cast<double>(inputs.shape.batch_count);
  const std::string type(NameOf(inputs.a.element_type));
  const auto phases = PhasesOf(report);
  if (json_wanted) {
    nlohmann::json json = {
        {"output", nullptr},
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
    if (report.result) {
      json["result"] = JsonOf(*report.result);
    } else {
      json["output"] = command.d_path;
    }
    for (size_t i = 0; i < phases.size(); ++i) {
      json["server_seconds"][kPhaseNames[i]] = absl::ToDoubleSeconds(phases[i]);
    }
    PrintJson(json);
    return;
  }
  absl::PrintF("%s: %s %s\n", report.result ? "@" + report.result->name : command.d_path,
               ToString(inputs.shape.result), type);
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
  PollConnectionsApart();
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<MatricesByName> matrices = AskForMatrices(*client, command);
  if (!matrices.ok()) return FailCall(*client, options, matrices.status(), json);
  const absl::StatusOr<Inputs> inputs = ReadInputs(command, *matrices);
  if (!inputs.ok()) return FailInput(inputs.status(), json);
  std::optional<NpyWriter> output;
  if (!command.d_path.empty()) {
    absl::StatusOr<NpyWriter> writer =
        NpyWriter::Create(command.d_path, inputs->a.element_type, inputs->shape.result);
    if (!writer.ok()) return FailInput(writer.status(), json);
    output.emplace(*std::move(writer));
  }
  NpyWriter* const d = output ? &*output : nullptr;
  const absl::StatusOr<MultiplyReport> report =
      inputs->a.element_type == ElementType::kF32 ? Multiply<float>(*client, command, *inputs, d)
                                                  : Multiply<double>(*client, command, *inputs, d);
  if (!report.ok()) return FailCall(*client, options, report.status(), json);
  if (output) {
    if (const absl::Status status = output->Commit(); !status.ok()) return FailInput(status, json);
  }
  PrintReport(command, *inputs, *report, json);
  return kSuccess;
}

}  // namespace gemm::cli
