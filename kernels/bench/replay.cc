#include "kernels/bench/replay.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cuda_raii.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

constexpr double kLongSeconds = 0.05;  // so long that one pass warms up well enough

class Graph {
 public:
  Graph() = default;
  ~Graph() { Reset(); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // `launches` products, one after the other, over the sets in turn.
  cudaError_t Capture(const Contender& contender, size_t launches, size_t sets,
                      cudaStream_t stream) {
    Reset();
    GEMM_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < launches && error == cudaSuccess; ++i) {
      error = contender.launch(i % sets, stream);
    }
    // Ends the capture in any case: the stream is of no use otherwise.
    const cudaError_t end = cudaStreamEndCapture(stream, &graph_);
    GEMM_RETURN_IF_CUDA_ERROR(error);
    GEMM_RETURN_IF_CUDA_ERROR(end);
    return cudaGraphInstantiate(&exec_, graph_, 0);
  }

  cudaError_t Replay(cudaStream_t stream) const { return cudaGraphLaunch(exec_, stream); }

 private:
  void Reset() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    exec_ = nullptr;
    graph_ = nullptr;
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// One contender on the track.
struct Runner {
  Graph graph;
  size_t launches = 0;
  double replay_seconds = 0;
  std::vector<double> seconds;
};

}  // namespace

cudaError_t TimeOnce(const std::function<cudaError_t(cudaStream_t)>& launch, cudaStream_t stream,
                     double* seconds) {
  Event begin;
  Event end;
  GEMM_RETURN_IF_CUDA_ERROR(begin.Create());
  GEMM_RETURN_IF_CUDA_ERROR(end.Create());
  GEMM_RETURN_IF_CUDA_ERROR(cudaEventRecord(begin.get(), stream));
  GEMM_RETURN_IF_CUDA_ERROR(launch(stream));
  GEMM_RETURN_IF_CUDA_ERROR(cudaEventRecord(end.get(), stream));
  GEMM_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  GEMM_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  *seconds = 1e-3 * milliseconds;
  return cudaSuccess;
}

bool CanCapture(const Contender& contender, cudaStream_t stream) {
  Graph graph;
  if (graph.Capture(contender, 1, 1, stream) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

cudaError_t TimeAlternately(const std::vector<Contender>& contenders, size_t sets, const Pace& pace,
                            cudaStream_t stream, std::vector<Summary>* seconds) {
  std::vector<std::unique_ptr<Runner>> runners;
  double round_seconds = 0;
  for (const Contender& contender : contenders) {
    Runner& runner = *runners.emplace_back(std::make_unique<Runner>());
    const auto replay = [&runner](cudaStream_t on) { return runner.graph.Replay(on); };
    // One pass over the sets warms up and says how long a product takes.
    GEMM_RETURN_IF_CUDA_ERROR(runner.graph.Capture(contender, sets, sets, stream));
    GEMM_RETURN_IF_CUDA_ERROR(TimeOnce(replay, stream, &runner.replay_seconds));
    if (runner.replay_seconds < kLongSeconds) {
      GEMM_RETURN_IF_CUDA_ERROR(TimeOnce(replay, stream, &runner.replay_seconds));
    }
    const double passes = std::ceil(pace.graph_seconds / std::max(1e-9, runner.replay_seconds));
    runner.launches = sets;
    if (passes > 1) {
      runner.launches *= static_cast<size_t>(passes);
      GEMM_RETURN_IF_CUDA_ERROR(runner.graph.Capture(contender, runner.launches, sets, stream));
      GEMM_RETURN_IF_CUDA_ERROR(TimeOnce(replay, stream, &runner.replay_seconds));
    }
    round_seconds += runner.replay_seconds;
  }
  const int rounds = std::clamp(static_cast<int>(pace.seconds / std::max(1e-9, round_seconds)),
                                pace.min_rounds, pace.max_rounds);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < runners.size(); ++i) {
      Runner& runner = *runners[(i + static_cast<size_t>(round)) % runners.size()];
      double replayed = 0;
      GEMM_RETURN_IF_CUDA_ERROR(TimeOnce(
          [&runner](cudaStream_t on) { return runner.graph.Replay(on); }, stream, &replayed));
      runner.seconds.push_back(replayed / static_cast<double>(runner.launches));
    }
  }
  seconds->clear();
  for (const auto& runner : runners) seconds->push_back(Summarize(runner->seconds));
  return cudaSuccess;
}

}  // namespace gemm
