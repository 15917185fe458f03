#include "kernels/bench/timing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "kernels/bench/device_fill.h"
#include "kernels/bench/prepared_launch.h"
#include "kernels/bench/sampled_check.h"
#include "kernels/cuda_status.h"
#include "kernels/select.h"

namespace gemm {
namespace {

constexpr int kSamples = 100;
constexpr int kMaxSets = 256;
constexpr size_t kMaxBytes = size_t{16} << 30;
constexpr double kGraphSeconds = 1e-3;   // a replay is at least this long: events tick coarsely
constexpr double kBudgetSeconds = 0.75;  // for all replays of one kernel
constexpr int kMinReplays = 5;
constexpr int kMaxReplays = 50;

class Graph {
 public:
  Graph() = default;
  ~Graph() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // `launches` products, one after the other, over the sets in turn.
  cudaError_t Capture(const std::deque<PreparedLaunch>& sets, int launches, cudaStream_t stream) {
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < launches && error == cudaSuccess; ++i) {
      error = sets[static_cast<size_t>(i) % sets.size()].Launch(stream);
    }
    // Ends the capture in any case: the stream is of no use otherwise.
    const cudaError_t end = cudaStreamEndCapture(stream, &graph_);
    GEMM_RETURN_IF_CUDA_ERROR(error);
    GEMM_RETURN_IF_CUDA_ERROR(end);
    return cudaGraphInstantiate(&exec_, graph_, 0);
  }

  cudaError_t Replay(cudaStream_t stream) const { return cudaGraphLaunch(exec_, stream); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

struct OperandSet {
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer d;
  Operands operands;
};

class Timer {
 public:
  Timer(const Problem& problem, const DeviceInfo& device) : problem_(problem), device_(device) {}

  cudaError_t Create() {
    const auto bytes = [&](MatrixShape shape, const MatrixLayout& layout) {
      return static_cast<size_t>(ExtentElements(shape, layout, problem_.batch_count)) *
             SizeOf(problem_.dtype);
    };
    const size_t a = bytes(StoredA(problem_), problem_.a);
    const size_t b = bytes(StoredB(problem_), problem_.b);
    const size_t d = bytes(StoredC(problem_), problem_.d);
    const size_t set_bytes = std::max<size_t>(1, a + b + d);
    const size_t sets = std::clamp<size_t>(2 * device_.l2_bytes / set_bytes + 1, 2, kMaxSets);
    GEMM_RETURN_IF_CUDA_ERROR(stream_.Create());
    GEMM_RETURN_IF_CUDA_ERROR(begin_.Create());
    GEMM_RETURN_IF_CUDA_ERROR(end_.Create());
    const auto elements = [&](size_t n) {
      return static_cast<int64_t>(n / SizeOf(problem_.dtype));
    };
    for (size_t s = 0; s < sets && (s == 0 || s * set_bytes < kMaxBytes); ++s) {
      OperandSet& set = sets_.emplace_back();
      GEMM_RETURN_IF_CUDA_ERROR(set.a.Create(a));
      GEMM_RETURN_IF_CUDA_ERROR(set.b.Create(b));
      GEMM_RETURN_IF_CUDA_ERROR(set.d.Create(d));
      GEMM_RETURN_IF_CUDA_ERROR(DeviceFill(problem_.dtype, set.a.data(), elements(a), filled_.fill,
                                           filled_.seed_a, stream_.get()));
      GEMM_RETURN_IF_CUDA_ERROR(DeviceFill(problem_.dtype, set.b.data(), elements(b), filled_.fill,
                                           filled_.seed_b, stream_.get()));
      set.operands = {set.a.data(), set.b.data(), nullptr, set.d.data()};
    }
    samples_ = MakeSamples(problem_, filled_, kSamples);
    return cudaStreamSynchronize(stream_.get());
  }

  // Fills the fault of `timing` if the result is wrong.
  cudaError_t Check(const KernelRef& kernel, KernelTiming* timing) {
    const OperandSet& set = sets_.front();
    GEMM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(set.d.data(), 0xff, set.d.bytes(), stream_.get()));
    PreparedLaunch launch;
    GEMM_RETURN_IF_CUDA_ERROR(launch.Create(kernel, {&problem_, 1}, {&set.operands, 1}, device_));
    GEMM_RETURN_IF_CUDA_ERROR(launch.Launch(stream_.get()));
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_.get()));
    Verdict verdict;
    GEMM_RETURN_IF_CUDA_ERROR(CheckSamples(problem_.dtype, samples_, set.d.data(), &verdict));
    if (!verdict.ok) {
      timing->fault = verdict.fault;
      return cudaSuccess;
    }
    std::vector<char> result(set.d.bytes());
    GEMM_RETURN_IF_CUDA_ERROR(
        cudaMemcpy(result.data(), set.d.data(), result.size(), cudaMemcpyDeviceToHost));
    const auto [first, added] = class_results_.try_emplace(kernel.get().numerics);
    if (added) {
      first->second = std::move(result);
    } else if (first->second != result) {
      timing->fault = "its bits differ from those of its numerics class";
    }
    return cudaSuccess;
  }

  cudaError_t Time(const KernelRef& kernel, KernelTiming* timing) {
    std::deque<PreparedLaunch> launches;
    for (const OperandSet& set : sets_) {
      GEMM_RETURN_IF_CUDA_ERROR(
          launches.emplace_back().Create(kernel, {&problem_, 1}, {&set.operands, 1}, device_));
    }
    // A first graph of one pass over the sets warms up and says how long one product takes.
    const int sets = static_cast<int>(launches.size());
    double once = 0;
    {
      Graph pass;
      GEMM_RETURN_IF_CUDA_ERROR(pass.Capture(launches, sets, stream_.get()));
      GEMM_RETURN_IF_CUDA_ERROR(Replay(pass, &once));
      GEMM_RETURN_IF_CUDA_ERROR(Replay(pass, &once));
      once /= sets;
    }
    const int passes = std::max(1, static_cast<int>(std::ceil(kGraphSeconds / (once * sets))));
    const int count = passes * sets;
    Graph graph;
    GEMM_RETURN_IF_CUDA_ERROR(graph.Capture(launches, count, stream_.get()));
    const int replays =
        std::clamp(static_cast<int>(kBudgetSeconds / (once * count)), kMinReplays, kMaxReplays);
    std::vector<double> seconds(static_cast<size_t>(replays));
    GEMM_RETURN_IF_CUDA_ERROR(Replay(graph, &seconds[0]));
    for (double& one : seconds) {
      GEMM_RETURN_IF_CUDA_ERROR(Replay(graph, &one));
      one /= count;
    }
    std::sort(seconds.begin(), seconds.end());
    timing->seconds = seconds[seconds.size() / 2];
    timing->spread = (seconds.back() - seconds.front()) / timing->seconds;
    return cudaSuccess;
  }

 private:
  cudaError_t Replay(const Graph& graph, double* seconds) {
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventRecord(begin_.get(), stream_.get()));
    GEMM_RETURN_IF_CUDA_ERROR(graph.Replay(stream_.get()));
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventRecord(end_.get(), stream_.get()));
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end_.get()));
    float milliseconds = 0;
    GEMM_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    *seconds = 1e-3 * milliseconds;
    return cudaSuccess;
  }

  const Problem& problem_;
  const DeviceInfo& device_;
  const SampledOperands filled_{Fill::kReals, 21, 22, 23};
  std::vector<Sample> samples_;
  std::map<NumericsClass, std::vector<char>> class_results_;
  Stream stream_;
  Event begin_;
  Event end_;
  std::deque<OperandSet> sets_;
};

}  // namespace

cudaError_t TimeKernels(std::span<const KernelFamily* const> families, const DeviceInfo& device,
                        const Problem& problem, std::string_view only,
                        std::vector<KernelTiming>* timings) {
  Timer timer(problem, device);
  GEMM_RETURN_IF_CUDA_ERROR(timer.Create());
  const Selection choice = Select(problem, device, families);
  // Last first, so that the reference sets the bits of its class.
  for (size_t f = families.size(); f-- > 0;) {
    const KernelFamily* family = families[f];
    GEMM_RETURN_IF_CUDA_ERROR(family->Prepare(device));
    for (size_t config = 0; config < family->configs().size(); ++config) {
      const KernelRef kernel{family, static_cast<int>(config)};
      if (!only.empty() && kernel.get().name != only) continue;
      if (!family->WhyNot(problem, device, kernel.config).empty()) continue;
      KernelTiming timing;
      timing.kernel = kernel.get().name;
      timing.selected = choice.kernel.family == family && choice.kernel.config == kernel.config;
      timing.modelled_seconds = family->ModelSeconds(problem, device, kernel.config);
      GEMM_RETURN_IF_CUDA_ERROR(timer.Check(kernel, &timing));
      if (timing.fault.empty()) GEMM_RETURN_IF_CUDA_ERROR(timer.Time(kernel, &timing));
      timings->push_back(std::move(timing));
    }
  }
  return cudaSuccess;
}

}  // namespace gemm
