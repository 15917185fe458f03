// The matrices that stay on one GPU: their memory, and the copies of their rows.

#ifndef GEMMD_SERVER_ENGINE_CUDA_MATRICES_H_
#define GEMMD_SERVER_ENGINE_CUDA_MATRICES_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda_raii.h"
#include "server/engine/device.h"

namespace gemm {

// Thread-safe. The functions are those of Device. Outlives the matrices.
//
// Rows go through page-locked memory in pieces of a few MiB, so that while one piece is on its way
// over the bus the next is filled, and what is read there is still in the processor's cache.
class CudaMatrices {
 public:
  // `lost` is set when an error has poisoned the context.
  CudaMatrices(int ordinal, std::atomic<bool>& lost);
  ~CudaMatrices();

  absl::Status Open();

  absl::StatusOr<std::unique_ptr<DeviceMatrix>> Allocate(const MatrixSpec& spec);
  absl::Status WriteRows(const DeviceMatrix& matrix, RowRange rows, RowSource next);
  absl::Status ReadRows(const DeviceMatrix& matrix, RowRange rows, std::byte* to);

 private:
  // What one copy of rows has to itself meanwhile.
  struct Lane;
  // Takes a lane when there is one, gives it back at the end.
  class BorrowedLane;

  absl::Status Write(Lane& lane, const DeviceMatrix& matrix, RowRange rows, RowSource next) const;
  absl::Status Read(Lane& lane, const DeviceMatrix& matrix, RowRange rows, std::byte* to) const;
  // Waits until nothing of a copy that failed touches its buffers any more.
  absl::Status Settle(const Lane& lane, absl::Status status);

  const int ordinal_;
  std::atomic<bool>& lost_;
  // Apart from that of the batches, which gives back to the driver what it has beyond their budget.
  cudaMemPool_t pool_ = nullptr;
  Stream memory_stream_;                      // allocates and frees in its order
  std::vector<std::unique_ptr<Lane>> lanes_;  // constant after Open

  std::mutex mutex_;
  // State below is protected by mutex_.
  std::condition_variable returned_;
  std::vector<Lane*> idle_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CUDA_MATRICES_H_
