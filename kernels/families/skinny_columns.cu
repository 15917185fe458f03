// One row times a matrix whose rows, of k, have the columns side by side, wherever they begin. A
// thread has a column, so that a warp reads 128 bytes of a row: 32 rows are under way, and those of
// what is next are asked for as those that have come are added. Blocks stay: they go on from strip
// to strip, of all matrices. No element is read twice, so none goes through shared memory.
//
//   kWarps 1   a warp has a strip of 32 columns, with all 32 lanes of the order (sum_order.h) in
//              registers: for batches and wide matrices. Nothing is added between warps.
//   kWarps 8   eight share a strip: each has every 8th row, 4 lanes. Two chunks may be summed at
//              once, by eight warps each.
//
// x comes an element a thread, and goes round by shuffles.

#include "kernels/families/launch_records.h"
#include "kernels/families/skinny_columns.cuh"
#include "kernels/families/skinny_lines.h"

namespace gemm {
namespace {

// Registers for two blocks of 8 warps, and for three.
constexpr int kThreadsTogether = 32 * kColumnWarpsTogether;
template <int kWarps>
__global__ void __launch_bounds__(kWarps == 1 ? kMostLineThreads : kThreadsTogether,
                                  kWarps == 1 ? 2 : 1)
    SkinnyColumns(const __grid_constant__ SkinnyGemm g) {
  SumColumns<kWarps, kLineLanes>(g);
}

const void* KernelFor(const SkinnyGemm& g) {
  return g.line.warps == 1 ? reinterpret_cast<const void*>(&SkinnyColumns<1>)
                           : reinterpret_cast<const void*>(&SkinnyColumns<kColumnWarps>);
}

}  // namespace

cudaError_t PrepareSkinnyColumns(size_t shared_bytes) {
  const void* const kernels[] = {reinterpret_cast<const void*>(&SkinnyColumns<1>),
                                 reinterpret_cast<const void*>(&SkinnyColumns<kColumnWarps>)};
  return LoadKernels(kernels, shared_bytes);
}

cudaError_t LaunchSkinnyColumns(const SkinnyGemm& g, const LineLaunch& launch,
                                cudaStream_t stream) {
  return LaunchLine(KernelFor(g), g, launch, stream);
}

}  // namespace gemm
