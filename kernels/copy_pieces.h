// Copies many pieces between page-locked host memory and device memory by one call: a launch, or a
// request to the copy engines. Asked for one by one, an engine takes about 2 us to begin each copy
// and the host about as long to ask, longer than 64 KiB take on the way.
//
// A kernel begins and ends sooner. While one reads as another writes, though, the bus brings in no
// more than 38 GB/s, where the engines keep up 50 with pieces of 128 KiB (H200, 2026-11-30).

#ifndef GEMMD_KERNELS_COPY_PIECES_H_
#define GEMMD_KERNELS_COPY_PIECES_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace gemm {

// Neither end may be written or read otherwise meanwhile; both are aligned to 16 bytes.
struct CopyPiece {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
};

// Once for each device, with that device current, before the first LaunchCopyPieces.
cudaError_t PrepareCopyPieces();

// By a kernel. Enqueues only. `pieces` is read before it returns; there is one launch for each
// kMostPieces of them.
inline constexpr int kMostPieces = 128;
cudaError_t LaunchCopyPieces(std::span<const CopyPiece> pieces, cudaStream_t stream);

// By the copy engines. Enqueues only; `stream` is not the default stream, `pieces` is read before
// it returns. The pieces may be copied in any order.
cudaError_t RequestCopyPieces(std::span<const CopyPiece> pieces, cudaStream_t stream);

}  // namespace gemm

#endif  // GEMMD_KERNELS_COPY_PIECES_H_
