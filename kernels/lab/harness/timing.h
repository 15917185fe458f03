// Times a candidate by events: one launch at a time, or, if it is short, a graph of several.

#ifndef GEMMD_KERNELS_LAB_HARNESS_TIMING_H_
#define GEMMD_KERNELS_LAB_HARNESS_TIMING_H_

#include "harness/lab.h"

namespace lab {

struct Repeats {
  bool graph;
  int count;  // launches a measurement
};

class Timer {
 public:
  Timer(const Candidate& candidate, Repeats repeats, cudaStream_t stream)
      : candidate_(candidate), repeats_(repeats), stream_(stream) {
    LAB_CHECK(cudaEventCreate(&start_));
    LAB_CHECK(cudaEventCreate(&stop_));
    if (!repeats.graph) return;
    cudaGraph_t graph;
    LAB_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < repeats.count; ++i) candidate.launch(i, stream);
    LAB_CHECK(cudaStreamEndCapture(stream, &graph));
    LAB_CHECK(cudaGraphInstantiate(&graph_, graph, 0));
    LAB_CHECK(cudaGraphDestroy(graph));
  }
  ~Timer() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Microseconds a launch; without a graph, on operand set `set`.
  double Measure(int set) {
    float ms;
    LAB_CHECK(cudaEventRecord(start_, stream_));
    if (graph_ != nullptr) {
      LAB_CHECK(cudaGraphLaunch(graph_, stream_));
    } else {
      candidate_.launch(set, stream_);
    }
    LAB_CHECK(cudaEventRecord(stop_, stream_));
    LAB_CHECK(cudaEventSynchronize(stop_));
    LAB_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
    return ms * 1e3 / repeats_.count;
  }

 private:
  const Candidate& candidate_;
  const Repeats repeats_;
  cudaStream_t stream_;
  cudaEvent_t start_, stop_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_HARNESS_TIMING_H_
