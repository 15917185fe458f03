#include "client/cpp/internal/borrowed_memory.h"

#include <cassert>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gemm::client {

struct BorrowedMemory::Loans {
  absl::Mutex mutex;
  int64_t out ABSL_GUARDED_BY(mutex) = 0;
  absl::AnyInvocable<void()> returned ABSL_GUARDED_BY(mutex);

  void GiveBack() {
    absl::AnyInvocable<void()> last;
    {
      absl::MutexLock lock(&mutex);
      if (--out == 0) last = std::move(returned);
    }
    if (last) last();
  }
};

BorrowedMemory::BorrowedMemory() : loans_(std::make_shared<Loans>()) {}

BorrowedMemory::~BorrowedMemory() {
  absl::MutexLock lock(&loans_->mutex);
  assert(loans_->out == 0);
}

grpc::Slice BorrowedMemory::Lend(const void* data, size_t size_bytes) {
  {
    absl::MutexLock lock(&loans_->mutex);
    ++loans_->out;
  }
  const auto give_back = [](void* user_data) {
    const std::unique_ptr<std::shared_ptr<Loans>> loans(
        static_cast<std::shared_ptr<Loans>*>(user_data));
    (*loans)->GiveBack();
  };
  return grpc::Slice(const_cast<void*>(data), size_bytes, give_back,
                     new std::shared_ptr<Loans>(loans_));
}

void BorrowedMemory::WhenReturned(absl::AnyInvocable<void()> returned) {
  {
    absl::MutexLock lock(&loans_->mutex);
    if (loans_->out > 0) {
      loans_->returned = std::move(returned);
      return;
    }
  }
  returned();
}

}  // namespace gemm::client
