#include "client/cpp/internal/polled_queue.h"

#include <atomic>
#include <cassert>
#include <chrono>
#include <memory>
#include <utility>

namespace gemm::client {
namespace {

using Step = absl::AnyInvocable<void()>;
using SystemClock = std::chrono::system_clock;

// How often to look whether another thread has made an end, which is rare: gRPC holds on to a
// request whose call has failed.
constexpr auto kLookEvery = std::chrono::milliseconds(1);

std::atomic<int> waiting{0};  // threads that wait on their queues

// A step once one has come, null after `deadline`.
std::unique_ptr<Step> WaitOn(grpc::CompletionQueue& queue, SystemClock::time_point deadline) {
  void* tag = nullptr;
  bool ok = false;
  ++waiting;
  const auto status = queue.AsyncNext(&tag, &ok, deadline);
  --waiting;
  return std::unique_ptr<Step>(status == grpc::CompletionQueue::GOT_EVENT ? static_cast<Step*>(tag)
                                                                          : nullptr);
}

}  // namespace

bool PolledQueue::SomebodyWaits() { return waiting > 0; }

PolledQueue::PolledQueue() {
  if (SomebodyWaits()) return;
  void* tag = nullptr;
  bool ok = false;
  queue_.AsyncNext(&tag, &ok, SystemClock::time_point());  // of now gRPC makes up to 1 ms
}

PolledQueue::~PolledQueue() {
  assert(steps_ == 0);
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) continue;
}

void* PolledQueue::Tag(absl::AnyInvocable<void()> step) {
  ++steps_;
  return new Step(std::move(step));
}

void PolledQueue::RunUntil(absl::FunctionRef<bool()> over) {
  while (!over()) {
    const std::unique_ptr<Step> step = WaitOn(
        queue_, steps_ > 0 ? SystemClock::time_point::max() : SystemClock::now() + kLookEvery);
    if (step == nullptr) continue;
    --steps_;
    (*step)();
  }
}

}  // namespace gemm::client
