#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/copy_pieces.h"
#include "kernels/cuda_status.h"

namespace gemm {
namespace {

// A block's part: 4 loads of 16 bytes a thread, all under way at once. PCIe takes about 1 us, so
// 55 GB/s need 55 KB under way: 7 blocks.
constexpr int kThreads = 128;
constexpr int kLoads = 4;
constexpr size_t kBlockBytes = size_t{kThreads} * kLoads * 16;

template <int kMost>
struct Table {
  int count;
  unsigned first_blocks[kMost];  // ascending; the first is 0
  CopyPiece pieces[kMost];
};
constexpr int kFew = 16;  // arguments are copied at every launch, so a short table has a kernel too
static_assert(sizeof(Table<kMostPieces>) <= 4096, "fits the arguments of a kernel");

template <int kMost>
__global__ void __launch_bounds__(kThreads) Copy(const __grid_constant__ Table<kMost> table) {
  int low = 0;  // the last piece whose first block is not beyond this one
  for (int high = table.count; high - low > 1;) {
    const int middle = (low + high) / 2;
    (table.first_blocks[middle] <= blockIdx.x ? low : high) = middle;
  }
  const CopyPiece& piece = table.pieces[low];
  const size_t offset = size_t{blockIdx.x - table.first_blocks[low]} * kBlockBytes;
  const auto* from = static_cast<const unsigned char*>(piece.from) + offset;
  auto* to = static_cast<unsigned char*>(piece.to) + offset;
  const int bytes = static_cast<int>(min(piece.bytes - offset, kBlockBytes));

  const int words = bytes / 16;
  uint4 values[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    if (at < words) values[i] = __ldcs(reinterpret_cast<const uint4*>(from) + at);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    if (at < words) reinterpret_cast<uint4*>(to)[at] = values[i];
  }
  const int at = words * 16 + static_cast<int>(threadIdx.x);
  if (at < bytes) to[at] = from[at];
}

template <int kMost>
void LaunchTable(std::span<const CopyPiece> pieces, cudaStream_t stream) {
  Table<kMost> table;
  table.count = static_cast<int>(pieces.size());
  unsigned blocks = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    table.first_blocks[i] = blocks;
    table.pieces[i] = pieces[i];
    blocks += static_cast<unsigned>((pieces[i].bytes + kBlockBytes - 1) / kBlockBytes);
  }
  if (blocks > 0) Copy<kMost><<<blocks, kThreads, 0, stream>>>(table);
}

}  // namespace

cudaError_t PrepareCopyPieces() {
  cudaFuncAttributes attributes;
  GEMM_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, Copy<kFew>));
  return cudaFuncGetAttributes(&attributes, Copy<kMostPieces>);
}

cudaError_t LaunchCopyPieces(std::span<const CopyPiece> pieces, cudaStream_t stream) {
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min<size_t>(pieces.size(), kMostPieces));
    if (some.size() <= kFew) {
      LaunchTable<kFew>(some, stream);
    } else {
      LaunchTable<kMostPieces>(some, stream);
    }
    pieces = pieces.subspan(some.size());
  }
  return cudaGetLastError();
}

cudaError_t RequestCopyPieces(std::span<const CopyPiece> pieces, cudaStream_t stream) {
  if (pieces.empty()) return cudaSuccess;
  if (pieces.size() == 1) {
    const CopyPiece& piece = pieces.front();
    return cudaMemcpyAsync(piece.to, piece.from, piece.bytes, cudaMemcpyDefault, stream);
  }
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<size_t> bytes;
  from.reserve(pieces.size());
  to.reserve(pieces.size());
  bytes.reserve(pieces.size());
  for (const CopyPiece& piece : pieces) {
    from.push_back(piece.from);
    to.push_back(piece.to);
    bytes.push_back(piece.bytes);
  }
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first_with_attributes = 0;
  return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), pieces.size(), &attributes,
                              &first_with_attributes, 1, stream);
}

}  // namespace gemm
