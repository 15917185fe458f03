#include "proto/tune_process.h"

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace gemm {
namespace {

// An Abseil that still kept its graph of locks would end the process here.
TEST(TuneProcessTest, LocksAreTakenWithoutAGraph) {
  TuneProcess();
  absl::Mutex a;
  absl::Mutex b;
  {
    const absl::MutexLock first(&a);
    const absl::MutexLock second(&b);
  }
  const absl::MutexLock first(&b);
  const absl::MutexLock second(&a);
}

}  // namespace
}  // namespace gemm
