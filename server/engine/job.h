// One product on its way through the engine: what to compute, where its bytes lie, who is told.

#ifndef GEMMD_SERVER_ENGINE_JOB_H_
#define GEMMD_SERVER_ENGINE_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/gemm.h"
#include "server/memory/host_pool.h"

namespace gemm {

// What the reply tells about how the product ran. Filled by the engine and the device.
struct ExecutionReport {
  std::string kernel;         // full name; empty when nothing had to run
  std::string kernel_family;  // the metric label
  std::string device;
  int device_index = 0;
  uint32_t batch_problems = 1;
  int launches = 0;
  absl::Duration queue = absl::ZeroDuration();
  absl::Duration copy_in = absl::ZeroDuration();
  absl::Duration compute = absl::ZeroDuration();
  absl::Duration copy_out = absl::ZeroDuration();
};

// Shared by the caller's side, which may give it up, and the engine, which looks before it works.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_{false};
};

// A byte range of Job::input that holds one operand.
struct InputSpan {
  size_t offset_bytes = 0;  // a multiple of kOperandAlignment
  size_t size_bytes = 0;    // 0: the operand is not read
};

// Operands start at multiples of this, on the host and on the device.
inline constexpr size_t kOperandAlignment = 256;

// What `bytes` take up where the next thing starts at such a multiple.
constexpr size_t AlignedSize(size_t bytes) {
  return (bytes + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment;
}

// Owned by exactly one party at a time; whoever owns it calls Finish exactly once.
struct Job {
  Problem problem;   // validated; layouts describe the operands as they lie in `input`
  HostBuffer input;  // pinned: every payload the product reads, copied in with one transfer
  InputSpan a, b, c;
  HostBuffer output;   // pinned: D, dense, `problem.d` describes it
  std::string caller;  // whose turn it is counted as
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<CancelToken> cancel;
  absl::Time enqueued;  // set by the engine

  ExecutionReport report;
  // Called once, from any thread, after which the job is gone; must not block. It takes the job
  // back so that the caller reads report and output.
  absl::AnyInvocable<void(absl::Status, std::unique_ptr<Job>) &&> done;
};

// Hands the job back to whoever submitted it.
void Finish(std::unique_ptr<Job> job, absl::Status status);

// Bytes that the job keeps in host memory while it waits.
uint64_t HeldBytes(const Job& job);

// Rough seconds of a fast GPU that the job will take: what fairness and batches are counted in.
double EstimatedSeconds(const Job& job);

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_JOB_H_
