#include "client/cpp/internal/polled_queue.h"

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

}  // namespace

PolledQueue::PolledQueue() {
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
    void* tag = nullptr;
    bool ok = false;
    const auto status = steps_ > 0 ? queue_.AsyncNext(&tag, &ok, SystemClock::time_point::max())
                                   : queue_.AsyncNext(&tag, &ok, SystemClock::now() + kLookEvery);
    if (status != grpc::CompletionQueue::GOT_EVENT) continue;
    const std::unique_ptr<Step> step(static_cast<Step*>(tag));
    --steps_;
    (*step)();
  }
}

}  // namespace gemm::client
