// Lends the caller's memory to gRPC and knows when gRPC has let go of it.

#ifndef GEMMD_CLIENT_CPP_INTERNAL_BORROWED_MEMORY_H_
#define GEMMD_CLIENT_CPP_INTERNAL_BORROWED_MEMORY_H_

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"

namespace gemm::client {

// gRPC frees a call's slices when its context has died, a millisecond or so after a refusal or a
// deadline: whoever lends memory keeps it alive until WhenReturned has said that it is back.
// Not thread-safe itself; gRPC may return memory on any thread.
class BorrowedMemory {
 public:
  BorrowedMemory();
  ~BorrowedMemory();  // requires that all memory is back

  BorrowedMemory(const BorrowedMemory&) = delete;
  BorrowedMemory& operator=(const BorrowedMemory&) = delete;

  // A slice over [data, data + size_bytes), which gRPC only reads.
  grpc::Slice Lend(const void* data, size_t size_bytes);

  // Calls `returned` once when no slice is left: here if there is none now, otherwise in the depths
  // of gRPC, where it must be quick and must not call gRPC. Once, after the last Lend.
  void WhenReturned(absl::AnyInvocable<void()> returned);

 private:
  struct Loans;
  std::shared_ptr<Loans> loans_;  // shared with the slices: the last one may outlive this
};

}  // namespace gemm::client

#endif  // GEMMD_CLIENT_CPP_INTERNAL_BORROWED_MEMORY_H_
