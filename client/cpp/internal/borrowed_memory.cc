#include "client/cpp/internal/borrowed_memory.h"

#include <cassert>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gemm::client {

struct BorrowedMemory::Loans {
  absl::Mutex mutex;
  int64_t out ABSL_GUARDED_BY(mutex) = 0;
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
    absl::MutexLock lock(&(*loans)->mutex);
    --(*loans)->out;
  };
  return grpc::Slice(const_cast<void*>(data), size_bytes, give_back,
                     new std::shared_ptr<Loans>(loans_));
}

void BorrowedMemory::WaitForReturn() const {
  const auto all_back = +[](Loans* loans) {
    loans->mutex.AssertReaderHeld();
    return loans->out == 0;
  };
  absl::MutexLock lock(&loans_->mutex);
  loans_->mutex.Await(absl::Condition(all_back, loans_.get()));
}

}  // namespace gemm::client
