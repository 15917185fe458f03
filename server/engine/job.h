// The products of one call on their way through the engine: what to compute, where their bytes lie,
// who is told.

#ifndef GEMMD_SERVER_ENGINE_JOB_H_
#define GEMMD_SERVER_ENGINE_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/gemm.h"
#include "server/memory/device_matrix.h"
#include "server/memory/host_pool.h"

namespace gemm {

// How a product ran. Filled by the device; the names live as long as it does.
struct ExecutionReport {
  std::string_view kernel;         // full name; empty when nothing had to run
  std::string_view kernel_family;  // the metric label
  std::string_view device;
  int device_index = 0;
  int launches = 0;
  // Of the product, or of the batch where its products share them.
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

// A byte range of Job::input, or of a matrix that stays on the server, that holds one operand.
struct InputSpan {
  size_t offset_bytes = 0;  // in Job::input a multiple of kOperandAlignment
  size_t size_bytes = 0;    // 0: the operand is not read
  std::shared_ptr<const DeviceMatrix> matrix = nullptr;  // null: in Job::input
};

// Operands start at multiples of this, on the host and on the device.
inline constexpr size_t kOperandAlignment = 256;

// What `bytes` take up where the next thing starts at such a multiple.
constexpr size_t AlignedSize(size_t bytes) {
  return (bytes + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment;
}

struct JobProduct {
  Problem problem;  // validated; layouts describe the operands as they lie where they are
  InputSpan a, b, c;
  // Of D in Job::output; a multiple of kOperandAlignment. Results lie in the order of the products.
  size_t output_offset_bytes = 0;
  size_t output_bytes = 0;  // D is dense there, `problem.d` describes it
  // Set: D goes there, whole, and output_bytes is 0. It is on the device of the job.
  std::shared_ptr<DeviceMatrix> result;
  bool result_exists = false;  // an earlier call has computed it: there is nothing to do
  // How it went. One that is not OK from the start is not run: it keeps its place for the reply.
  absl::Status status;
  ExecutionReport report;
};

// False when there is nothing to compute: the product was refused, or has failed, or its result is
// empty or there already.
bool NeedsDevice(const JobProduct& product);

// What jobs ask for in total. Products that need no device count for nothing.
struct JobCost {
  uint64_t problems = 0;
  uint64_t bytes = 0;  // of host memory, held while it waits
  double flops = 0;
  double seconds = 0;  // roughly, of a fast GPU: what fairness and batches are counted in
};

// Owned by exactly one party at a time; whoever owns it calls Finish exactly once.
struct Job {
  absl::InlinedVector<JobProduct, 1> products;  // at least one
  HostBuffer input;    // pinned: every payload that the products read, to be copied in at once
  HostBuffer output;   // pinned: their results
  std::string caller;  // whose turn it is counted as
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<CancelToken> cancel;
  std::optional<int> device;  // the only one that may run it; unset: any

  // Set by the engine.
  JobCost cost;
  absl::Time enqueued;
  absl::Duration queue = absl::ZeroDuration();  // how long it waited
  uint32_t batch_problems = 1;                  // products that went to the device with it
  bool last_of_batch = true;  // no other job of its batch waits until its `done` has returned

  // Called once, from any thread, after which the job is gone; must not block. It takes the job
  // back so that the caller reads products and output. The status is of the call as a whole: when
  // it is OK, each product has its own.
  absl::AnyInvocable<void(absl::Status, std::unique_ptr<Job>) &&> done;
};

// Hands the job back to whoever submitted it.
void Finish(std::unique_ptr<Job> job, absl::Status status);

JobCost CostOf(const Job& job);

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_JOB_H_
