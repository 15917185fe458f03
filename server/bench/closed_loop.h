// Callers of an engine in its own process, who send their next product when the last is done.

#ifndef GEMMD_SERVER_BENCH_CLOSED_LOOP_H_
#define GEMMD_SERVER_BENCH_CLOSED_LOOP_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/engine/engine.h"

namespace gemm::bench {

struct Load {
  std::vector<Problem> problems;  // f32, dense; taken in turns
  int callers = 1;                // threads
  int jobs_each = 1;              // under way at once
  bool resident = false;          // operands and results stay on device 0
};

struct Measured {
  double seconds = 0;
  std::vector<double> call_us;   // from submitting to done, of each product
  std::vector<double> queue_us;  // of that, until a lane took it
  double products_per_second() const { return static_cast<double>(call_us.size()) / seconds; }
};

double Median(std::vector<double> values);
double Percentile(std::vector<double> values, double percent);

// Ends the process when a product fails or is wrong.
class ClosedLoop {
 public:
  // Makes the jobs, whose operands are small integers, and runs each once.
  ClosedLoop(Engine& engine, const Load& load);
  ~ClosedLoop();  // checks results

  ClosedLoop(const ClosedLoop&) = delete;
  ClosedLoop& operator=(const ClosedLoop&) = delete;

  // Runs on for so long, then until what is under way is done.
  Measured Run(double seconds);

  // The same in two steps, to do something meanwhile.
  void Start();
  Measured Stop();

 private:
  struct Slot;
  struct Caller;

  void Call(Caller& caller);

  Engine& engine_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_{false};
  absl::Time started_;
};

}  // namespace gemm::bench

#endif  // GEMMD_SERVER_BENCH_CLOSED_LOOP_H_
