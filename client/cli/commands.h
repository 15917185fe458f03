// What each of gemmctl's commands does once its arguments are parsed.

#ifndef GEMMD_CLIENT_CLI_COMMANDS_H_
#define GEMMD_CLIENT_CLI_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/failure.h"
#include "client/cli/perf/load_point.h"
#include "client/cli/perf/shape_mix.h"
#include "client/cli/perf/slo.h"
#include "gemmd/client.h"

namespace gemm::cli {

struct MultiplyCommand {
  // Operands: paths of files, or "@" and the name of a matrix on the server.
  std::string a;
  std::string b;
  std::string c;       // empty: none
  std::string d_path;  // empty: D becomes the matrix `result`
  ResultMatrix result;
  double alpha = 1.0;
  double beta = 0.0;
  bool transpose_a = false;
  bool transpose_b = false;
  Precision precision = Precision::kStrict;
  bool progress = false;
};

struct PutCommand {
  std::string path;
  std::string name;  // empty: that of the file
  absl::Duration time_to_live;
  bool exist_ok = false;
  bool progress = false;
};

struct GetCommand {
  std::string name;
  std::string path;
  bool progress = false;
};

struct PerfCommand {
  ShapeMix mix;
  std::vector<LoadPoint> points;  // at least one, all of a kind
  int batch = 0;                  // 0: single products
  bool resident_b = false;        // every shape's B is on the server
  int64_t upload_bytes = 0;       // not 0: no products, but transfers of a matrix of that size
  int channels = 1;
  int outstanding = 256;
  absl::Duration duration = absl::Seconds(5);
  absl::Duration warmup = absl::Seconds(1);
  uint64_t seed = 1;
  std::vector<SloBound> slo;
  bool progress = false;
};

// Results go to stdout, for people or as one line of JSON; what went wrong is told as failure.h has
// it. Each connects first.
ExitCode RunMultiply(const ClientOptions& options, const MultiplyCommand& command, bool json);
ExitCode RunPut(const ClientOptions& options, const PutCommand& command, bool json);
ExitCode RunGet(const ClientOptions& options, const GetCommand& command, bool json);
ExitCode RunList(const ClientOptions& options, bool json);
ExitCode RunRemove(const ClientOptions& options, const std::vector<std::string>& names, bool json);
ExitCode RunPerf(const ClientOptions& options, const PerfCommand& command, bool json);
ExitCode RunPerfUpload(const ClientOptions& options, const PerfCommand& command, bool json);
ExitCode RunExplain(const ClientOptions& options, const ExplainArgs& args, bool json);
ExitCode RunInfo(const ClientOptions& options, bool json);

// `service` is "" for the whole server.
ExitCode RunHealth(const ClientOptions& options, const std::string& service, bool json);

}  // namespace gemm::cli

#endif  // GEMMD_CLIENT_CLI_COMMANDS_H_
