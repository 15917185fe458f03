// Packing operands in the kernel that multiplies, by the producer warps that boxes leave idle. All
// packing is cut into shares, which every block that runs takes one after the other until none is
// left, those that are needed first before the others. The thread that asks for boxes waits until
// what they hold is packed. Packers wait for nobody, so no block has to run beside another one.
//
// It takes few registers, which is why its loops are not unrolled further: where one is spilled,
// ptxas places the operands of the loop that multiplies such that every second multiply-add waits
// for a bank of the register file.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_PACK_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_PACK_CUH_

#include <cuda_runtime.h>

#include "kernels/families/divisor.cuh"
#include "kernels/families/ffma_gemm.h"
#include "kernels/families/ffma_pack_share.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/global_counter.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// Of a packing warp, or of the thread that asks for boxes, when it needs the counts no more. The
// last one leaves them as the next launch wants them.
__device__ __forceinline__ void FfmaLeavePacking(const FfmaOwnPacking& own) {
  FfmaPackCounts* counts = own.counts;
  const int all = static_cast<int>(gridDim.x) * (kFfmaPackers + 1);
  if (AddAcquireRelease(&counts->left, 1) != all - 1) return;
  counts->taken = 0;
  counts->left = 0;
  const int used = own.phases + Quotient(own.shares - own.of_all_phases, own.by_of_group);
  for (int i = 0; i < used; ++i) counts->done[i] = 0;
}

// What a thread that asks for boxes knows to be packed.
struct FfmaPacked {
  int phases = 0;
  int groups = 0;  // of the later ones

  // Waits until products [product, product + kFfmaPackTile) are packed.
  __device__ __forceinline__ void WaitForPhase(const FfmaOwnPacking& own, int product) {
    const int phase = product / kFfmaPackTile;
    if (phase < phases) return;
    Wait(own, phase, own.of_phase);
    if (phase == phases) ++phases;
  }

  // Waits until the group of a row of tiles is packed, but for the first one.
  __device__ __forceinline__ void WaitForGroup(const FfmaOwnPacking& own, int tile_row) {
    const int group = Quotient(tile_row, own.by_group_tiles);
    if (group <= groups) return;
    Wait(own, own.phases + group - 1, own.of_group);
    if (group == groups + 1) ++groups;
  }

 private:
  __device__ __forceinline__ static void Wait(const FfmaOwnPacking& own, int index, int shares) {
    if (shares == 0) return;
    while (LoadRelaxed(&own.counts->done[index]) < shares) {
    }
    AcquireFence();
    OrderBoxesBehindGlobalAccesses();
  }
};

// One packing warp's work; `buffer` is its own.
__device__ __forceinline__ void FfmaPack(const FfmaOwnPacking& own, uint32_t buffer) {
  constexpr int kTile = kFfmaPackTile;
  constexpr int kPitch = kTile + 1;  // any row or column into different banks
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto take = [&] { return lane == 0 ? atomicAdd(&own.counts->taken, 1) : 0; };
  int next = take();
  while (true) {
    const int share = __shfl_sync(~0U, next, 0);
    if (share >= own.shares) break;
    next = take();
    const FfmaPackShare mine(own, share);
    const Packing& o = mine.is_b ? own.b : own.a;
    const int64_t outer0 = int64_t{mine.tile} * kTile;
    const int64_t depth0 = int64_t{mine.phase} * kTile;
    const auto outers = static_cast<int>(min(int64_t{kTile}, o.outer - outer0));
    const auto depths = static_cast<int>(min(int64_t{kTile}, o.depth - depth0));
    const bool transposes = o.outer_stride != 1;
    const int rows = transposes ? outers : depths;
    const int columns = transposes ? depths : outers;
    const int64_t stride = transposes ? o.outer_stride : o.depth_stride;
    const float* from = o.from + outer0 * o.outer_stride + depth0 * o.depth_stride + lane;
    uint32_t into = buffer + lane * 4;
    if (lane < columns) {
#pragma unroll 4
      for (int row = 0; row < rows; ++row) {
        CopyAsync4(into, from);
        into += kPitch * 4;
        from += stride;
      }
    }
    WaitForCopies();
    __syncwarp();
    const int outer_bytes = transposes ? kPitch * 4 : 4;
    const int depth_bytes = transposes ? 4 : kPitch * 4;
    const int outer = lane % 8 * 4;
    int depth = lane / 8;
    uint32_t at = buffer + outer * outer_bytes + depth * depth_bytes;
    float* to = o.to + (depth0 + depth) * o.pitch + outer0 + outer;
    if (outer < outers) {
#pragma unroll 1
      for (; depth < depths; depth += 4) {
        *reinterpret_cast<float4*>(to) =
            make_float4(LoadShared(at), LoadShared(at + outer_bytes),
                        LoadShared(at + 2 * outer_bytes), LoadShared(at + 3 * outer_bytes));
        at += 4 * depth_bytes;
        to += 4 * o.pitch;
      }
    }
    OrderBoxesBehindGlobalAccesses();
    __syncwarp();
    if (lane == 0) AddRelease(&own.counts->done[mine.done], 1);
  }
  if (lane == 0) FfmaLeavePacking(own);
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_PACK_CUH_
