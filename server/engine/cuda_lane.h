// One batch's way through a GPU: a stream of its own, so that its copies run beside the computing
// of other lanes.

#ifndef GEMMD_SERVER_ENGINE_CUDA_LANE_H_
#define GEMMD_SERVER_ENGINE_CUDA_LANE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/copy_pieces.h"
#include "kernels/cuda_raii.h"
#include "server/engine/cuda_batch.h"
#include "server/engine/device.h"
#include "server/engine/kernel_choices.h"
#include "server/memory/byte_budget.h"

namespace gemm {

// Used by one thread at a time, with its device current.
class CudaLane {
 public:
  // Device memory that a lane keeps: what a batch on the short road has to fit in. A small job by
  // itself brings in and out less than 5 MiB.
  static constexpr size_t ScratchBytes(LaneKind kind) {
    return (kind == LaneKind::kLent ? size_t{8} : size_t{32}) << 20;
  }

  // What the lanes of a device share.
  struct Shared {
    explicit Shared(uint64_t memory_bytes) : memory(memory_bytes) {}

    ByteBudget memory;               // of batches on the long road
    std::atomic<int> long_roads{0};  // batches that are on it
    std::mutex upload;               // whose turn it is to bring in a long road's operands
    // Copies of small batches beside long roads; and, protected by upload, how many there had been
    // at the last turn.
    std::atomic<uint64_t> short_copies{0};
    uint64_t short_copies_before = 0;

    // Copies of small batches that the next chunk of an upload has to let pass. A copy engine that
    // is kept busy by one stream would take up others' copies when that one's are all done.
    std::mutex mutex;
    std::vector<cudaEvent_t> let_pass;  // protected by mutex
  };

  CudaLane(LaneKind kind, Shared& shared) : kind_(kind), shared_(shared) {}

  absl::Status Open();
  LaneKind kind() const { return kind_; }
  size_t scratch_bytes() const { return ScratchBytes(kind_); }
  KernelChoices& choices() { return choices_; }

  // Runs the batch and waits for it; its device memory is at most the budget. Adds to `compute`
  // how long it computed. An error that concerns a task alone goes into its product's status; one
  // that is returned concerns all. Either way nothing uses the jobs' buffers any more, unless
  // `*poisoned` is set: the device is then lost.
  absl::Status Run(CudaBatch& batch, absl::Duration* compute, bool* poisoned);

 private:
  absl::Status RunShort(CudaBatch& batch, absl::Duration* compute);
  absl::Status RunLong(CudaBatch& batch, absl::Duration* compute);
  absl::Status Encode(const CudaBatch& batch, std::byte* memory);
  std::vector<CopyPiece> PiecesIn(const CudaBatch& batch, std::byte* memory) const;
  static std::vector<CopyPiece> PiecesOut(const CudaBatch& batch, std::byte* memory);
  absl::Status CopyShort(std::span<const CopyPiece> pieces, cudaMemcpyKind kind);
  absl::Status CopyOver(const CudaBatch& batch, std::byte* memory);
  absl::Status CopyInLong(std::span<const CopyPiece> pieces);
  absl::Status LetShortCopiesPass();
  void Launch(CudaBatch& batch, std::byte* memory);
  absl::Status SignalDone();
  absl::Status WaitForDone();

  const LaneKind kind_;
  Shared& shared_;
  KernelChoices choices_;
  Stream stream_;
  PinnedBuffer args_;

  // The short road's.
  DeviceBuffer scratch_;
  PinnedBuffer done_;  // the device writes there the number of the batch that it has done
  uint32_t batches_ = 0;
  Event short_copied_;

  // The long road's.
  Event start_, copied_in_, computed_, copied_out_;
  std::array<Event, 3> chunks_;  // of the uploads under way
};

}  // namespace gemm

#endif  // GEMMD_SERVER_ENGINE_CUDA_LANE_H_
