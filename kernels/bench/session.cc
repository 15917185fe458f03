#include "kernels/bench/session.h"

#include <algorithm>
#include <ctime>
#include <fstream>

#include "kernels/cuda_status.h"
#include "kernels/registry.h"

namespace gemm {
namespace {

// A peer's way that takes this many times the best, by a single launch, gets no better look; of
// long ones, only the best few do.
constexpr double kHopelessWay = 2;
constexpr double kLatencySeconds = 2e-5;
constexpr double kLongLaunchSeconds = 1e-3;
constexpr size_t kLongLaunchWays = 4;

// "580.159.04", as the kernel module says it; the runtime knows its API version only.
std::string DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "unknown";
}

std::string CudaVersion() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

}  // namespace

RunLog::~RunLog() {
  if (file_ != nullptr) std::fclose(file_);
}

bool RunLog::Open(const std::string& path) {
  if (path.empty()) return true;
  file_ = std::fopen(path.c_str(), "w");
  return file_ != nullptr;
}

void RunLog::WriteText(const std::string& lines) {
  if (file_ == nullptr) return;
  std::fputs(lines.c_str(), file_);
  std::fflush(file_);  // a run that is cut short keeps what it has
}

Json ToJson(const Provenance& provenance) {
  return {{"kind", "run"},
          {"card", provenance.card},
          {"driver", provenance.driver},
          {"cuda", provenance.cuda},
          {"peer", provenance.peer},
          {"date", provenance.date},
          {"commit", provenance.commit},
          {"command", provenance.command}};
}

std::vector<std::string> HeaderOf(const Json& provenance) {
  const auto word = [&](const char* field) { return provenance.value(field, std::string()); };
  return {word("card") + ", driver " + word("driver") + ", CUDA " + word("cuda") + ", " +
              word("date") + ", commit " + word("commit"),
          word("command")};
}

std::string Session::Open() {
  const auto failed = [](const char* what, cudaError_t error) {
    return std::string(what) + ": " + CudaErrorText(error);
  };
  if (std::string fault = OpenDevice(flags_, &device_); !fault.empty()) return fault;
  const auto loading = std::chrono::steady_clock::now();
  for (const KernelFamily* family : Families()) {
    const cudaError_t error = family->Prepare(device_);
    if (error == cudaSuccess) {
      families_.push_back(family);
    } else if (IsPoisoning(error)) {
      return failed(std::string(family->name()).c_str(), error);
    } else {
      cudaGetLastError();
      std::printf("%s is left out: %s\n", std::string(family->name()).c_str(),
                  CudaErrorText(error).c_str());
    }
  }
  const std::chrono::duration<double> loaded = std::chrono::steady_clock::now() - loading;
  selector_.emplace(device_, families_, TableFor(flags_, device_));
  bench_.emplace(device_);
  if (const cudaError_t error = bench_->Create(); error != cudaSuccess) {
    return failed("stream", error);
  }
  peer_ = MakePeer();
  if (!log_.Open(flags_.json)) return "cannot write " + flags_.json;
  provenance_ = {device_.name, DriverVersion(), CudaVersion(), peer_->version(),
                 Now(),        flags_.commit,   flags_.command};
  log_.Write(ToJson(provenance_));
  std::printf("%s, driver %s, CUDA %s, %s, %s\n", provenance_.card.c_str(),
              provenance_.driver.c_str(), provenance_.cuda.c_str(), provenance_.peer.c_str(),
              provenance_.date.c_str());
  std::printf("kernels loaded in %.2f s\n", loaded.count());
  return {};
}

std::string Session::OpenWithShapes() {
  std::string fault;
  shapes_ = ReadShapes(flags_.shapes, flags_.words, &fault);
  return fault.empty() ? Open() : fault;
}

std::string Session::ForEachShape(
    DType dtype, const std::function<cudaError_t(const BenchShape&, const Problem&)>& body) {
  for (const BenchShape& shape : shapes_) {
    if (!HasTime()) break;
    if (const cudaError_t error = body(shape, BenchProblem(shape, dtype)); error != cudaSuccess) {
      return NameOf(shape) + ": " + CudaErrorText(error);
    }
    std::fflush(stdout);
  }
  return {};
}

bool Session::HasTime() {
  if (elapsed() < flags_.budget) return true;
  if (!said_) std::printf("the budget of %.0f s is spent: the rest is left out\n", flags_.budget);
  said_ = true;
  return false;
}

double Session::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

cudaError_t MeasureShape(Session& session, DType dtype, const BenchShape& shape,
                         const MeasureOptions& options, bool with_rough, ShapeTimes* record,
                         int* faults) {
  *record = {dtype, shape, {}};
  std::vector<KernelTime> times;
  GEMM_RETURN_IF_CUDA_ERROR(MeasureKernels(session.bench(), BenchProblem(shape, dtype),
                                           session.families(), options, &times));
  for (const KernelTime& time : times) {
    const std::string name(time.kernel.get().name);
    if (!time.fault.empty()) {
      ++*faults;
      std::printf("%s %s FAILED its check: %s\n", NameOf(shape).c_str(), name.c_str(),
                  time.fault.c_str());
      continue;
    }
    if (with_rough || !time.rough) record->kernels.push_back({name, 1e6 * time.seconds.median});
  }
  session.log().WriteText(ToJsonLines(*record));
  return cudaSuccess;
}

cudaError_t FindPeerWay(Session& session, const Problem& problem, ResultCheck& check,
                        PeerWay* found) {
  *found = {};
  Peer& peer = session.peer();
  const std::vector<Operands>& sets = session.bench().arena().sets();
  const cudaStream_t stream = session.bench().stream();
  const std::vector<std::string> ways = peer.Prepare(problem, &found->why_not);

  // Each way twice, checked: the first launch may load its kernel or try algorithms.
  std::vector<std::pair<double, size_t>> by_time;
  for (size_t way = 0; way < ways.size(); ++way) {
    const auto launch = [&, way](cudaStream_t on) {
      return peer.Launch(way, sets.front(), on) ? cudaSuccess : cudaErrorNotSupported;
    };
    std::string fault;
    double once = 0;
    cudaError_t error = check.Run(launch, nullptr, stream, &fault, &once);
    if (error == cudaSuccess && fault.empty()) error = TimeOnce(launch, stream, &once);
    if (IsPoisoning(error)) return error;
    if (error == cudaSuccess && fault.empty()) {
      by_time.emplace_back(once, way);
      continue;
    }
    found->why_not = ways[way] + ": " + (fault.empty() ? "refused" : fault);
    cudaGetLastError();
  }

  // Those near the best over a short distance. A long launch tells well enough by itself.
  std::sort(by_time.begin(), by_time.end());
  std::vector<Contender> contenders;
  std::vector<size_t> at;
  for (const auto& [once, way] : by_time) {
    const double best = by_time.front().first;
    const bool near = best > kLongLaunchSeconds ? at.size() < kLongLaunchWays
                                                : once <= kHopelessWay * best + kLatencySeconds;
    if (!near) break;
    Contender contender{ways[way], [&peer, &sets, way = way](size_t set, cudaStream_t on) {
                          return peer.Launch(way, sets[set], on) ? cudaSuccess
                                                                 : cudaErrorNotSupported;
                        }};
    if (!CanCapture(contender, stream)) continue;
    contenders.push_back(std::move(contender));
    at.push_back(way);
  }
  if (contenders.empty()) return cudaSuccess;
  const Pace pace = {.graph_seconds = 3e-4, .seconds = 0.03, .min_rounds = 2, .max_rounds = 7};
  std::vector<Summary> seconds;
  GEMM_RETURN_IF_CUDA_ERROR(TimeAlternately(contenders, sets.size(), pace, stream, &seconds));
  size_t best = 0;
  for (size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i].median < seconds[best].median) best = i;
  }
  found->way = at[best];
  found->name = ways[at[best]];
  return cudaSuccess;
}

}  // namespace gemm
