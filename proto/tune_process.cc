#include "proto/tune_process.h"

#include <malloc.h>

#include <climits>
#include <cstdlib>

#include "absl/synchronization/mutex.h"

namespace gemm {

void TuneProcess() {
  // gRPC frees each message's buffers while the next one arrives. With its defaults glibc gives
  // them back to the kernel and faults every page in again: 1.36x at 16 MiB. The price is a process
  // that stays as large as its busiest moment, which the memory budgets bound.
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  mallopt(M_TOP_PAD, 64 << 20);
  // gRPC's locks are Abseil's, and Debian builds that without NDEBUG: every lock and unlock looks
  // it up, under one spinlock of the process, in a graph that tells whether locks wait in a circle.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC's experiments are left alone. tcp_frame_size_tuning (1.51) waits for the socket to become
  // readable while bytes still lie in it, which edge-triggered polling never tells: calls of 16 MiB
  // stood still until the next keepalive ping. tcp_rcv_lowat does nothing without it, and with it
  // hides that most of the time.
}

void TuneServerProcess() {
  TuneProcess();
  // glibc heeds its variable before main; the call would overrule it. On 16 cores one arena costs
  // batches of small products a sixth of their speed, four nothing that shows.
  if (getenv("MALLOC_ARENA_MAX") == nullptr) mallopt(M_ARENA_MAX, 4);
}

}  // namespace gemm
