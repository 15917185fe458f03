// gemmctl: a gemmd server from the command line. Parses arguments; commands.h does the rest.

#include <cstdlib>
#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/commands.h"
#include "client/cli/temporary_file.h"

namespace gemm::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  gemmctl multiply A.npy B.npy -o D.npy
  gemmctl multiply A.npy A.npy --transpose-b -o gram.npy --json
  gemmctl multiply A.npy B.npy --c C.npy --alpha 0.5 --beta 1 -o D.npy
  gemmctl explain 4096 4096 64 --dtype f64
  GEMMD_ADDRESS=gpu7:50051 gemmctl info

Exit codes:
  0  done; for health: the server is SERVING
  1  the call failed, or the server is not there or not SERVING
  2  bad usage, an input that cannot be read or an output that cannot be written)";

constexpr char kMultiplyFooter[] =
    R"(Shapes follow numpy.matmul: two dimensions, or three for a stack of matrices; a single
matrix is used with every matrix of the other operand. Files are .npy of float32 or float64,
of one type in a call. Fortran-order files are sent as they are. D appears under its name when
it is complete, and not before.)";

// "60s", "200ms", "1m30s".
std::string ParseTimeout(const std::string& text, absl::Duration& timeout) {
  if (absl::ParseDuration(text, &timeout) && timeout > absl::ZeroDuration()) return {};
  return "\"" + text + "\" is not a duration above zero, such as 60s, 500ms or 1m30s";
}

ExitCode Run(int argc, char** argv) {
  ClientOptions options;
  MultiplyCommand multiply;
  HealthCommand health;
  ExplainArgs explain;
  bool info_json = false;
  bool explain_json = false;
  std::string precision = "strict";

  CLI::App app("Multiplies matrices on a gemmd server, and asks it about itself.", "gemmctl");
  app.footer(kFooter);
  app.set_version_flag("--version", "gemmctl " GEMMD_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.option_defaults()->always_capture_default();
  app.add_option("--address", options.address, "host:port, dns:///host:port or unix:/path")
      ->envname("GEMMD_ADDRESS");
  std::string timeout = "60s";
  app.add_option("--timeout", timeout, "for the whole call, retries included")
      ->check([&options](const std::string& text) { return ParseTimeout(text, options.timeout); });
  app.add_option("--retries", options.max_retries, "further attempts while the server is busy")
      ->check(CLI::Range(0, 1000));
  app.add_flag("--use-http-proxy", options.use_http_proxy, "obey http_proxy and its kin");

  CLI::App* multiply_app = app.add_subcommand("multiply", "D = alpha op(A) op(B) + beta C");
  multiply_app->footer(kMultiplyFooter);
  multiply_app->option_defaults()->always_capture_default(false);
  multiply_app->add_option("A", multiply.a_path, "left operand, a .npy file")->required();
  multiply_app->add_option("B", multiply.b_path, "right operand, a .npy file")->required();
  multiply_app->add_option("-o,--output", multiply.d_path, "result, a .npy file")->required();
  multiply_app->add_option("--alpha", multiply.alpha, "default 1");
  CLI::Option* beta = multiply_app->add_option("--beta", multiply.beta, "default 0");
  CLI::Option* c = multiply_app->add_option("--c", multiply.c_path, "addend, a .npy file");
  c->needs(beta);
  beta->needs(c);
  multiply_app->add_flag("--transpose-a", multiply.transpose_a, "swap A's last two dimensions");
  multiply_app->add_flag("--transpose-b", multiply.transpose_b, "swap B's last two dimensions");
  multiply_app->add_option("--precision", precision, "strict: IEEE arithmetic in the arrays' type")
      ->check(CLI::IsMember({"strict"}));
  multiply_app->add_flag("--json", multiply.json, "report as one JSON object");

  CLI::App* info_app = app.add_subcommand("info", "the server's version, devices and kernels");
  info_app->add_flag("--json", info_json, "one JSON object");

  CLI::App* health_app = app.add_subcommand("health", "whether the server is SERVING");
  health_app->add_option("--service", health.service, "one service instead of the whole server");
  health_app->add_flag("--json", health.json, "one JSON object");

  CLI::App* explain_app =
      app.add_subcommand("explain", "which kernel would run a product, and why");
  explain_app->add_option("M", explain.m, "rows of op(A) and D")->required();
  explain_app->add_option("N", explain.n, "columns of op(B) and D")->required();
  explain_app->add_option("K", explain.k, "columns of op(A), rows of op(B)")->required();
  explain_app->add_option("--dtype", explain.element_type, "f32 or f64")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ElementType>{
          {"f32", ElementType::kF32}, {"f64", ElementType::kF64}}))
      ->default_str("f32");
  explain_app->add_flag("--transpose-a", explain.transpose_a, "A is stored transposed");
  explain_app->add_flag("--transpose-b", explain.transpose_b, "B is stored transposed");
  explain_app->add_option("--batch", explain.batch_count, "number of products");
  explain_app->add_flag("--json", explain_json, "one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      app.exit(error);
      return kSuccess;
    }
    PrintError(std::string(error.what()) + " (see gemmctl --help)");
    return kBadInput;
  }
  if (*multiply_app) return RunMultiply(options, multiply);
  if (*info_app) return RunInfo(options, info_json);
  if (*health_app) return RunHealth(options, health);
  return RunExplain(options, explain, explain_json);
}

}  // namespace
}  // namespace gemm::cli

// CLI11 throws past Run only for options that are declared wrongly: those should end the program.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  // gRPC logs its own view of each failure to stderr; ours says the same in plain words.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  gemm::cli::RemoveTemporaryFilesOnSignal();
  return gemm::cli::Run(argc, argv);
}
