#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/npy.h"
#include "client/cli/progress.h"
#include "client/cli/transpose.h"
#include "gemmd/tune_process.h"
#include "nlohmann/json.hpp"

namespace gemm::cli {
namespace {

constexpr char kExtension[] = ".npy";

// "/data/W.npy" is W.
std::string NameFor(const PutCommand& command) {
  if (!command.name.empty()) return command.name;
  std::string name = command.path.substr(command.path.rfind('/') + 1);
  if (absl::EndsWith(name, kExtension)) name.resize(name.size() - (sizeof kExtension - 1));
  return name;
}

// A transfer that is over.
struct Transfer {
  MatrixInfo matrix;
  int64_t bytes = 0;
  absl::Duration wall;

  double gigabytes_per_second() const {
    return static_cast<double>(bytes) / absl::ToDoubleSeconds(wall) * 1e-9;
  }
};

template <typename T>
absl::StatusOr<Transfer> Put(const Client& client, const PutCommand& command,
                             const NpyArray& file) {
  PutArgs<T> args;
  args.name = NameFor(command);
  args.rows = file.shape()[0];
  args.columns = file.shape()[1];
  args.data = file.elements<T>();
  args.time_to_live = command.time_to_live;
  args.exist_ok = command.exist_ok;
  std::vector<T> reordered;
  if (file.fortran_order()) {
    reordered = RowMajor(args.data, args.rows, args.columns);
    args.data = reordered;
  }
  const absl::Time start = absl::Now();
  absl::StatusOr<MatrixInfo> matrix;
  WithProgress(command.progress, TransferProgress("sending", args.data.size_bytes(), 0),
               [&] { matrix = client.Put(args); });
  if (!matrix.ok()) return matrix.status();
  return Transfer{*std::move(matrix), static_cast<int64_t>(args.data.size_bytes()),
                  absl::Now() - start};
}

template <typename T>
absl::StatusOr<Transfer> Get(const Client& client, const GetCommand& command, NpyWriter& output) {
  const std::span<T> data = output.elements<T>();
  const absl::Time start = absl::Now();
  absl::StatusOr<MatrixInfo> matrix;
  WithProgress(command.progress, TransferProgress("receiving", 0, data.size_bytes()),
               [&] { matrix = client.Get({.name = command.name}, data); });
  if (!matrix.ok()) return matrix.status();
  return Transfer{*std::move(matrix), static_cast<int64_t>(data.size_bytes()), absl::Now() - start};
}

nlohmann::json TransferJson(const Transfer& transfer) {
  return {{"matrix", JsonOf(transfer.matrix)},
          {"bytes", transfer.bytes},
          {"total_seconds", absl::ToDoubleSeconds(transfer.wall)},
          {"gigabytes_per_second", transfer.gigabytes_per_second()}};
}

std::string Describe(const Transfer& transfer) {
  return absl::StrFormat("%s, %s in %s at %.2f GB/s", ShapeOf(transfer.matrix),
                         FormatBytes(static_cast<double>(transfer.bytes)),
                         FormatTime(transfer.wall), transfer.gigabytes_per_second());
}

// "sealed", or how much of it is there.
std::string StateOf(const MatrixInfo& matrix) {
  if (matrix.sealed) return "sealed";
  return absl::StrFormat("%d%% written",
                         matrix.rows_written * 100 / std::max<int64_t>(matrix.rows, 1));
}

}  // namespace

ExitCode RunPut(const ClientOptions& options, const PutCommand& command, bool json) {
  PollConnectionsApart();
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<NpyArray> file = NpyArray::Open(command.path);
  if (!file.ok()) return FailInput(file.status(), json);
  if (file->shape().size() != 2) {
    return FailInput(
        absl::InvalidArgumentError(absl::StrCat(
            command.path, ": has ", file->shape().size(), " dimensions (", ToString(file->shape()),
            "); a matrix on the server has two: of a stack, its rows one after another")),
        json);
  }
  const absl::StatusOr<Transfer> put = file->element_type() == ElementType::kF32
                                           ? Put<float>(*client, command, *file)
                                           : Put<double>(*client, command, *file);
  if (!put.ok()) return FailCall(*client, options, put.status(), json);
  if (json) {
    PrintJson(TransferJson(*put));
  } else {
    absl::PrintF("@%s: %s\n  kept for %s without being used\n", put->matrix.name, Describe(*put),
                 FormatSeconds(put->matrix.time_to_live));
  }
  return kSuccess;
}

ExitCode RunGet(const ClientOptions& options, const GetCommand& command, bool json) {
  PollConnectionsApart();
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<MatrixInfo> matrix = client->GetMatrix(command.name);
  if (!matrix.ok()) return FailCall(*client, options, matrix.status(), json);
  if (!matrix->element_type) {
    return FailInput(absl::InvalidArgumentError(
                         absl::StrCat(command.name, ": its type is not known to this gemmctl")),
                     json);
  }
  absl::StatusOr<NpyWriter> output =
      NpyWriter::Create(command.path, *matrix->element_type, {matrix->rows, matrix->columns});
  if (!output.ok()) return FailInput(output.status(), json);
  const absl::StatusOr<Transfer> got = *matrix->element_type == ElementType::kF32
                                           ? Get<float>(*client, command, *output)
                                           : Get<double>(*client, command, *output);
  if (!got.ok()) return FailCall(*client, options, got.status(), json);
  if (const absl::Status status = output->Commit(); !status.ok()) return FailInput(status, json);
  if (json) {
    nlohmann::json result = TransferJson(*got);
    result["output"] = command.path;
    PrintJson(result);
  } else {
    absl::PrintF("%s: %s\n", command.path, Describe(*got));
  }
  return kSuccess;
}

ExitCode RunList(const ClientOptions& options, bool json) {
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  const absl::StatusOr<std::vector<MatrixInfo>> matrices = client->ListMatrices();
  if (!matrices.ok()) return FailCall(*client, options, matrices.status(), json);
  if (json) {
    nlohmann::json result = {{"matrices", nlohmann::json::array()}};
    for (const MatrixInfo& matrix : *matrices) result["matrices"].push_back(JsonOf(matrix));
    PrintJson(result);
    return kSuccess;
  }
  size_t width = 0;
  for (const MatrixInfo& matrix : *matrices) width = std::max(width, matrix.name.size());
  for (const MatrixInfo& matrix : *matrices) {
    absl::PrintF("@%-*s  %-24s %12s  device %d  %s, expires in %s\n", static_cast<int>(width),
                 matrix.name, ShapeOf(matrix),
                 FormatBytes(static_cast<double>(matrix.memory_bytes)), matrix.device_index,
                 StateOf(matrix), FormatSeconds(matrix.expires_in));
  }
  return kSuccess;
}

ExitCode RunRemove(const ClientOptions& options, const std::vector<std::string>& names, bool json) {
  const absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return FailInput(client.status(), json);
  std::vector<std::string> deleted;
  absl::Status failure;
  for (const std::string& name : names) {
    const absl::Status status = client->DeleteMatrix(name);
    if (status.ok()) {
      deleted.push_back(name);
      continue;
    }
    if (!failure.ok()) PrintError(std::string(failure.message()));  // the last is told below
    failure = status;
    if (!absl::IsNotFound(status) && !absl::IsInvalidArgument(status)) break;  // so it would go on
  }
  if (!failure.ok()) return FailCall(*client, options, failure, json);
  if (json) {
    PrintJson({{"deleted", deleted}});
  } else {
    for (const std::string& name : deleted) absl::PrintF("deleted @%s\n", name);
  }
  return kSuccess;
}

}  // namespace gemm::cli
