#include "client/cli/arguments.h"

#include <unistd.h>

#include <functional>
#include <utility>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"

namespace gemm::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  gemmctl multiply A.npy B.npy -o D.npy
  gemmctl put W.npy --name w && gemmctl multiply X.npy @w -o D.npy
  gemmctl explain 4096 4096 64
  gemmctl perf --shapes 64x64x64 --concurrency 1,4,16
  GEMMD_ADDRESS=gpu7:50051 gemmctl info
  source <(gemmctl completion bash)

gemmctl COMMAND --help has more of each command. The options above may follow a command too.

Exit codes:
  0    done; for health: the server is SERVING
  1    the call failed, or the server is not there or not SERVING
  2    bad usage, an input that cannot be read or an output that cannot be written
  3    perf: a load point did not keep an --slo
  130  interrupted (128 + the signal's number); the output is then as it was before)";

constexpr char kMultiplyFooter[] =
    R"(Shapes follow numpy.matmul: two dimensions, or three for a stack of matrices; a single
matrix is used with every matrix of the other operand. Files are .npy of float32 or float64,
of one type in a call. Fortran-order files are sent as they are. D appears under its name when
it is complete, and not before.

@NAME is a matrix that is on the server (gemmctl put); a file of such a name is ./@NAME. With
--result D stays there, too, and may be larger than a message. A product of two dimensions whose A is
in C order may be of any size: it goes in panels of rows over --channels connections, after B.

Examples:
  gemmctl multiply A.npy B.npy -o D.npy
  gemmctl multiply A.npy @weights -o D.npy
  gemmctl multiply A.npy @weights --result hidden --ttl 10m
  gemmctl multiply A.npy A.npy --transpose-b -o gram.npy --json
  gemmctl multiply A.npy B.npy --c C.npy --alpha 0.5 --beta 1 -o D.npy
  gemmctl --address gpu7:50051 --timeout 10m multiply A.npy B.npy -o D.npy)";

constexpr char kPutFooter[] =
    R"(The matrix, of two dimensions, then is an operand as often as wanted: gemmctl multiply @NAME.
It goes in panels of rows over several connections, whatever its size; --timeout is for each
panel. It is stored row by row: a Fortran-order file is reordered in memory first. One that is not
used for its time to live is forgotten, and none outlives the server.

After an interruption, --exist-ok completes the upload of the same file.

Examples:
  gemmctl put W.npy                        # as W
  gemmctl put W.npy --name weights --ttl 8h
  gemmctl put W.npy --name weights --exist-ok --json)";

constexpr char kGetFooter[] =
    R"(The file is row-major, and appears under its name when it is complete, and not before.
--timeout is for each panel of rows.

Examples:
  gemmctl get hidden -o hidden.npy
  gemmctl get hidden -o hidden.npy --json)";

constexpr char kListFooter[] = R"(Examples:
  gemmctl list
  gemmctl list --json | jq -r '.matrices[].name')";

constexpr char kRemoveFooter[] =
    R"(Calls that are using a matrix finish with it. A name that is not there is a failure, and the
others are deleted all the same.

Examples:
  gemmctl rm weights hidden
  gemmctl list --json | jq -r '.matrices[].name' | xargs gemmctl rm)";

constexpr char kPerfFooter[] =
    R"(Two kinds of load. --concurrency: so many callers, each of which waits for its answer before it
calls again; this finds what a server can do. --rate: calls at random times of their own (a Poisson
process), whose latency counts from when they were due, so that nothing hides while a server stands
still; this finds how long callers wait. Several values are measured one after another. Calls are
tried once, whatever --retries says.

Shapes are MxNxK, then /f64 for float64 and /ta or /tb for an operand that is stored transposed,
then :WEIGHT. The server's product of each is checked before it is measured. With --batch every
product of a call has operands of its own, and one that fails is an error of its own.

With --resident b the operand B is not sent with each call. Products of more than 32 MiB each way go
in panels, over --channels connections of one client. --upload measures transfers alone, over
--channels connections side by side, and checks what comes back.

An --slo is a list of bounds that every load point must keep: p50, p99 or any other percentile, max,
and errors, a number or a percentage of all calls, unsent ones included.

Examples:
  gemmctl perf                                           # one caller, 1024x1024x1024
  gemmctl perf --shapes 64x64x64 --concurrency 1,4,16,64 --channels 4
  gemmctl perf --shapes 64x64x64 --batch 32 --concurrency 16 --channels 4
  gemmctl perf --shapes 64x64x64 --batch 32 --resident b --concurrency 16 --channels 4
  gemmctl perf --shapes 4096x8192x8192 --resident b --channels 16 --concurrency 2
  gemmctl perf --upload 1GiB --channels 8
  gemmctl perf --shapes 64x64x64:8,1024x1024x1024/tb:1 --rate 500,1000,2000 --duration 30s
  gemmctl perf --shapes 256x256x256/f64 --rate 1000 --slo p99=5ms,errors=0.1% --json)";

constexpr char kInfoFooter[] = R"(Examples:
  gemmctl info
  gemmctl info --json | jq -r .version)";

constexpr char kHealthFooter[] = R"(Examples:
  gemmctl health
  gemmctl --timeout 4s --retries 0 health || echo "do not send work there"
  gemmctl health --service gemm.v1.GemmService --json)";

constexpr char kExplainFooter[] = R"(Examples:
  gemmctl explain 4096 4096 64
  gemmctl explain 512 512 512 --dtype f64 --batch 100 --transpose-b)";

constexpr char kCompletionFooter[] = R"(Examples:
  source <(gemmctl completion bash)                    # for this shell; in ~/.bashrc for every one
  gemmctl completion bash >/etc/bash_completion.d/gemmctl)";

// "60s", "200ms", "1m30s".
std::string ParseTimeout(const std::string& text, absl::Duration& timeout) {
  if (absl::ParseDuration(text, &timeout) && timeout > absl::ZeroDuration()) return {};
  return "\"" + text + "\" is not a duration above zero, such as 60s, 500ms or 1m30s";
}

// Turns what a parser of ours returns into what CLI11's checks do: the fault in words, or nothing.
template <typename Value>
std::string Take(absl::StatusOr<Value> parsed, Value& value) {
  if (!parsed.ok()) return std::string(parsed.status().message());
  value = *std::move(parsed);
  return {};
}

// An option that is parsed while it is checked, so that its faults are worded like all others.
CLI::Option* AddParsed(CLI::App& app, const std::string& name, const std::string& type,
                       const std::string& default_text, const std::string& help,
                       std::function<std::string(const std::string&)> parse) {
  return app
      .add_option_function<std::string>(
          name, [](const std::string&) {}, help)
      ->type_name(type)
      ->check(std::move(parse))
      ->default_str(default_text);
}

void AddProgress(CLI::App& command, bool& progress, const char* help) {
  progress = isatty(STDERR_FILENO) == 1;
  command.add_flag("--progress,!--no-progress", progress, help);
}

void AddJson(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "one JSON object, for a failure too");
}

void AddPrecision(CLI::App& command, Precision& precision) {
  const std::string strict(NameOf(Precision::kStrict));
  command
      .add_option_function<std::string>(
          "--precision", [&precision](const std::string&) { precision = Precision::kStrict; },
          "strict: IEEE arithmetic in the product's type")
      ->type_name("NAME")
      ->check(CLI::IsMember({strict}))
      ->default_str(strict);
}

void AddDtype(CLI::App& command, ElementType& type) {
  const std::string f32(NameOf(ElementType::kF32));
  const std::string f64(NameOf(ElementType::kF64));
  command
      .add_option_function<std::string>(
          "--dtype",
          [&type, f64](const std::string& name) {
            type = name == f64 ? ElementType::kF64 : ElementType::kF32;
          },
          "type of every matrix")
      ->type_name("NAME")
      ->check(CLI::IsMember({f32, f64}))
      ->default_str(f32);
}

CLI::Option* AddTimeToLive(CLI::App& command, absl::Duration& time_to_live) {
  return AddParsed(
      command, "--ttl", "DURATION", "",
      "to keep it for without being used; default: the server's choice",
      [&time_to_live](const std::string& text) { return ParseTimeout(text, time_to_live); });
}

void AddChannels(CLI::App& command, int& channels, const char* help) {
  command.add_option("--channels", channels, help)
      ->type_name("N")
      ->check(CLI::Range(1, 1000, "1..1000"))
      ->capture_default_str();
}

void DeclarePut(CLI::App& command, PutCommand& put) {
  command.footer(kPutFooter);
  command.add_option("FILE", put.path, "a .npy file")->type_name("FILE")->required();
  command.add_option("--name", put.name, "default: the file's name without folder and .npy")
      ->type_name("NAME");
  AddTimeToLive(command, put.time_to_live);
  command.add_flag("--exist-ok", put.exist_ok,
                   "it may be there already, in part or as a whole, of this very file");
  AddProgress(command, put.progress,
              "show a slow transfer on stderr; default: if it is a terminal");
}

void DeclareGet(CLI::App& command, GetCommand& get) {
  command.footer(kGetFooter);
  command.add_option("NAME", get.name, "of a matrix on the server")->type_name("NAME")->required();
  command.add_option("-o,--output", get.path, "a .npy file")->type_name("FILE")->required();
  AddProgress(command, get.progress,
              "show a slow transfer on stderr; default: if it is a terminal");
}

void DeclareMultiply(CLI::App& command, MultiplyCommand& multiply) {
  command.footer(kMultiplyFooter);
  command.add_option("A", multiply.a, "left operand, a .npy file or @NAME")
      ->type_name("FILE")
      ->required();
  command.add_option("B", multiply.b, "right operand, a .npy file or @NAME")
      ->type_name("FILE")
      ->required();
  CLI::Option_group* result = command.add_option_group("Result", "one of the two");
  result->add_option("-o,--output", multiply.d_path, "a .npy file")->type_name("FILE");
  CLI::Option* name =
      result->add_option("--result", multiply.result.name, "a matrix that stays on the server");
  name->type_name("NAME");
  result->require_option(1);
  AddTimeToLive(command, multiply.result.time_to_live)->needs(name);
  command.add_option("--alpha", multiply.alpha, "default 1");
  CLI::Option* beta = command.add_option("--beta", multiply.beta, "default 0");
  CLI::Option* c = command.add_option("--c", multiply.c, "addend, a .npy file or @NAME");
  c->type_name("FILE");
  c->needs(beta);
  beta->needs(c);
  command.add_flag("--transpose-a", multiply.transpose_a, "swap A's last two dimensions");
  command.add_flag("--transpose-b", multiply.transpose_b, "swap B's last two dimensions");
  AddPrecision(command, multiply.precision);
  AddProgress(command, multiply.progress,
              "show slow transfers on stderr; default: if it is a terminal");
}

void DeclarePerf(CLI::App& command, PerfCommand& perf) {
  command.footer(kPerfFooter);
  AddParsed(command, "--shapes", "MIX", perf.mix.shapes()[0].name(), "products and their weights",
            [&perf](const std::string& text) { return Take(ShapeMix::Parse(text), perf.mix); });
  command
      .add_option_function<std::string>(
          "--resident", [&perf](const std::string&) { perf.resident_b = true; },
          "b: each shape's B is put on the server once and used by its name")
      ->type_name("OPERAND")
      ->check(CLI::IsMember({"b"}));
  perf.points = {LoadPoint{.callers = 1}};
  CLI::Option* concurrency = AddParsed(
      command, "--concurrency", "N,...", "1", "callers that wait for their answers",
      [&perf](const std::string& text) { return Take(ParseConcurrency(text), perf.points); });
  AddParsed(command, "--rate", "R,...", "", "calls a second, at random times",
            [&perf](const std::string& text) { return Take(ParseRates(text), perf.points); })
      ->excludes(concurrency);
  command
      .add_option("--batch", perf.batch,
                  "products a call, each of a shape of its own; without it a call is one Multiply")
      ->type_name("N")
      ->check(CLI::Range(1, 4096, "1..4096"));
  AddChannels(command, perf.channels, "connections to share them out among");
  command
      .add_option("--outstanding", perf.outstanding,
                  "with --rate: calls under way at once; others that are due wait for their turn")
      ->type_name("N")
      ->check(CLI::Range(1, 100000, "1..100000"))
      ->capture_default_str();
  AddParsed(command, "--duration", "DURATION", absl::FormatDuration(perf.duration),
            "to begin calls for, at each load point",
            [&perf](const std::string& text) { return ParseTimeout(text, perf.duration); });
  AddParsed(command, "--warmup", "DURATION", absl::FormatDuration(perf.warmup),
            "the same load before that, not measured; 0s is none",
            [&perf](const std::string& text) {
              return text == "0" || text == "0s" ? (perf.warmup = absl::ZeroDuration(), "")
                                                 : ParseTimeout(text, perf.warmup);
            });
  command.add_option("--seed", perf.seed, "of operands, shapes and times")->capture_default_str();
  AddParsed(command, "--slo", "BOUNDS", "", "exit with 3 if a load point does not keep them",
            [&perf](const std::string& text) { return Take(ParseSlo(text), perf.slo); });
  CLI::Option* upload = command.add_option(
      "--upload", perf.upload_bytes,
      "no products: put a matrix of so many bytes on the server, such as 1GiB, and get it, again "
      "and again");
  upload->type_name("SIZE")->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  for (const char* other : {"--shapes", "--resident", "--concurrency", "--rate", "--batch",
                            "--outstanding", "--warmup", "--slo"}) {
    upload->excludes(command.get_option(other));
  }
  AddProgress(command, perf.progress, "show on stderr how far it is; default: if it is a terminal");
}

void DeclareExplain(CLI::App& command, ExplainArgs& explain) {
  command.footer(kExplainFooter);
  command.add_option("M", explain.m, "rows of op(A) and D")->required();
  command.add_option("N", explain.n, "columns of op(B) and D")->required();
  command.add_option("K", explain.k, "columns of op(A), rows of op(B)")->required();
  AddDtype(command, explain.element_type);
  command.add_flag("--transpose-a", explain.transpose_a, "A is stored transposed");
  command.add_flag("--transpose-b", explain.transpose_b, "B is stored transposed");
  command.add_option("--batch", explain.batch_count, "number of products, default 1");
  AddPrecision(command, explain.precision);
}

}  // namespace

void DeclareArguments(CLI::App& app, Arguments& arguments) {
  app.footer(kFooter);
  app.set_version_flag("--version", "gemmctl " GEMMD_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--address", arguments.client.address, "host:port, dns:///host:port or unix:/path")
      ->type_name("ADDRESS")
      ->envname("GEMMD_ADDRESS")
      ->capture_default_str();
  AddParsed(app, "--timeout", "DURATION", "60s", "for the whole call, retries included",
            [&arguments](const std::string& text) {
              return ParseTimeout(text, arguments.client.timeout);
            });
  app.add_option("--retries", arguments.client.max_retries,
                 "further attempts while the server is busy or not there")
      ->type_name("N")
      ->check(CLI::Range(0, 1000, "0..1000"))
      ->capture_default_str();
  app.add_flag("--use-http-proxy", arguments.client.use_http_proxy, "obey http_proxy and its kin");

  CLI::App* multiply = app.add_subcommand("multiply", "D = alpha op(A) op(B) + beta C");
  DeclareMultiply(*multiply, arguments.multiply);
  AddChannels(*multiply, arguments.client.channels,
              "connections for the panels of a large product");
  AddJson(*multiply, arguments.json);

  CLI::App* put = app.add_subcommand("put", "put a matrix on the server, to be used by name");
  DeclarePut(*put, arguments.put);
  AddChannels(*put, arguments.client.channels, "connections, side by side");
  AddJson(*put, arguments.json);

  CLI::App* get = app.add_subcommand("get", "fetch a matrix that is on the server");
  DeclareGet(*get, arguments.get);
  AddChannels(*get, arguments.client.channels, "connections, side by side");
  AddJson(*get, arguments.json);

  CLI::App* list = app.add_subcommand("list", "your matrices on the server");
  list->footer(kListFooter);
  AddJson(*list, arguments.json);

  CLI::App* remove = app.add_subcommand("rm", "delete matrices on the server");
  remove->footer(kRemoveFooter);
  remove->add_option("NAME", arguments.remove, "of a matrix on the server")
      ->type_name("NAME")
      ->required();
  AddJson(*remove, arguments.json);

  CLI::App* perf = app.add_subcommand("perf", "how fast the server answers under load");
  DeclarePerf(*perf, arguments.perf);
  AddJson(*perf, arguments.json);

  CLI::App* info = app.add_subcommand("info", "the server's version, devices and kernels");
  info->footer(kInfoFooter);
  AddJson(*info, arguments.json);

  CLI::App* health = app.add_subcommand("health", "whether the server is SERVING");
  health->footer(kHealthFooter);
  health->add_option("--service", arguments.health_service,
                     "one service instead of the whole server");
  AddJson(*health, arguments.json);

  CLI::App* explain = app.add_subcommand("explain", "which kernel would run a product, and why");
  DeclareExplain(*explain, arguments.explain);
  AddJson(*explain, arguments.json);

  CLI::App* completion =
      app.add_subcommand("completion", "a script that completes gemmctl's words");
  completion->footer(kCompletionFooter);
  completion->add_option("SHELL", arguments.shell, "the shell that is to read it")
      ->type_name("NAME")
      ->check(CLI::IsMember({"bash"}))
      ->required();
}

}  // namespace gemm::cli
