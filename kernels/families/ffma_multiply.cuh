// The machinery of the f32 kernels for Hopper: producer warps copy tiles of A and B into a ring of
// stages in shared memory, consumer warps multiply. A consumer thread holds 8 x 16 results.
//
//                    B  depth x tile_n     a warp: kLaneRows x kLaneColumns threads. A thread's
//                    | 4 cols |..x4..|     rows are 2 groups of 4, its columns 4 groups of 4,
//   A tile_m x depth +--------+------+     groups one warp's width apart, so that its 16-byte loads
//             4 rows |  4x4   |      |     are consecutive: 2 + 4 loads for 128 multiply-adds
//             ..x2.. |        |      |
//                    +--------+------+     warps: kWarpsM x kWarpsN tiles, and kSlices of them
//                    share
//                                          each tile and take a part of k each
//
// A stage: A as [depth][tile_m], B as [depth][tile_n], whatever their layout in memory. An operand
// that lies so, its rows 16-byte aligned, comes by boxes that one thread asks for. Four producer
// warps transpose one with k contiguous, or copy one that is not aligned, if the kernel is for
// that. Everything else is packed: by producer warps that boxes leave idle (ffma_pack.cuh), or
// before, by pack_operands.h: then the kernel starts early and its producers wait.
//
// Why this shape (H200, 2026-11-29): an FFMA reads three registers from two banks, and what is left
// of the peak after the loads is decided by register allocation. With both operands
// outer-contiguous a k-step needs 8 + 16 operand registers, and ptxas keeps a sum and its A operand
// in different banks, as long as nothing ties sums together: so the epilogue multiplies every sum
// by a scalar (alpha or `one`, an exact 1 that the compiler cannot see) before a 16-byte store. The
// unrolled body is 8 k-steps, 17 KB; 16 k-steps lost 3 %, 32 lost 17 %, to the instruction cache. A
// operand with k contiguous in shared memory, 4 k-steps a load, lost 10 % to bank conflicts. Copies
// by cp.async of 128 threads for both operands, 16 bytes at a time where aligned, lost 7 to 10 % to
// the issue slots that they take.

#ifndef GEMMD_KERNELS_FAMILIES_FFMA_MULTIPLY_CUH_
#define GEMMD_KERNELS_FAMILIES_FFMA_MULTIPLY_CUH_

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/families/ffma_feed.cuh"
#include "kernels/families/ffma_fold.cuh"
#include "kernels/families/ffma_meet.cuh"
#include "kernels/families/ffma_pack.cuh"
#include "kernels/families/ffma_pieces.cuh"
#include "kernels/families/ffma_store.cuh"
#include "kernels/families/ffma_tile.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/warpgroup.cuh"

namespace gemm {

// The ring and its barriers in shared memory.
template <int kStageBytes, int kStages>
struct FfmaRing {
  uint32_t base;
  int stages = kStages;  // in use
  int stage = 0;
  uint32_t parity;

  __device__ __forceinline__ uint32_t Stage() const { return base + kStageBytes * stage; }
  __device__ __forceinline__ uint32_t Full() const {
    return base + kStageBytes * kStages + 8 * stage;
  }
  __device__ __forceinline__ uint32_t Empty() const { return Full() + 8 * kStages; }
  __device__ __forceinline__ void GoOn() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The stages of a piece of work; of them those that are full for one slice, and its products in
// the one after those.
struct FfmaDepth {
  int stages;
  int full_stages;
  int tail;

  template <int kSlices, int kSliceDepth>
  __device__ __forceinline__ static FfmaDepth Of(const FfmaPiece& piece, int slice) {
    const int length = piece.length;
    const int of_slice = piece.slice_length;
    const int mine = kSlices == 1 ? length : max(0, min(length - slice * of_slice, of_slice));
    const int longest = kSlices == 1 ? length : min(length, of_slice);
    return {(longest + kSliceDepth - 1) / kSliceDepth, mine / kSliceDepth, mine % kSliceDepth};
  }
};

// Blocks that share a multiprocessor are done at the same time if they began so, and then blocks
// that come after them would come in pairs.
__device__ __forceinline__ void FfmaBeginLate(const FfmaGemm& g) {
  const int block = static_cast<int>(blockIdx.x);
  if (g.late_clocks == 0 || block < g.in_turns / 2 || block >= g.in_turns) return;
  const int64_t end = clock64() + g.late_clocks;
  while (clock64() < end) __nanosleep(100);
}

template <FfmaKernel kKernel, typename Pieces, typename Ring>
__device__ __forceinline__ void FfmaProduce(const FfmaGemm& g, const Pieces& pieces,
                                            const CUtensorMap* map_a, const CUtensorMap* map_b,
                                            Ring ring) {
  using Layout = FfmaLayout<kKernel>;
  constexpr int kSlices = kKernel.shape.slices;
  constexpr int kDepth = Layout::kDepth;
  constexpr bool kAnyBox = Layout::kBoxA || Layout::kBoxB;
  constexpr bool kAnyThreads = !Layout::kBoxA || !Layout::kBoxB;
  constexpr bool kCopyingA = kKernel.feed_a == FfmaFeed::kCopying;
  constexpr bool kCopyingB = kKernel.feed_b == FfmaFeed::kCopying;
  const int thread = static_cast<int>(threadIdx.x) - 32 * Layout::kConsumers;
  if (!kAnyThreads && thread != 0) {
    if constexpr (Layout::kPacks) {
      if (g.own.counts != nullptr && thread >= 32) {
        WaitForKernelBefore();
        FfmaPack(g.own,
                 ring.base + Layout::kSharedBytes + (thread / 32 - 1) * Layout::kPackerBytes);
      }
    }
    return;
  }
  WaitForKernelBefore();
  ring.parity = 1;
  [[maybe_unused]] FfmaPacked packed;
  const int count = pieces.Count(g);
  for (int i = 0; i < count; ++i) {
    const FfmaPiece piece = pieces.At(g, i);
    const int row0 = piece.tile_m * Layout::kTileM;
    const int column0 = piece.tile_n * Layout::kTileN;
    const int slice_length = kSlices == 1 ? piece.length : piece.slice_length;
    const int longest = min(piece.length, slice_length);
    FfmaThreadFeed<kKernel.feed_a, Layout::kTileM, kDepth, kSlices> a(
        g.p.a + piece.batch * g.p.a_batch + row0 * (kCopyingA ? 1 : g.p.a_row) +
            piece.begin * (kCopyingA ? g.p.a_column : 1),
        kCopyingA ? g.p.a_column : g.p.a_row, g.p.m - row0, piece.length, slice_length, thread);
    FfmaThreadFeed<kKernel.feed_b, Layout::kTileN, kDepth, kSlices> b(
        g.p.b + piece.batch * g.p.b_batch + column0 * (kCopyingB ? 1 : g.p.b_column) +
            piece.begin * (kCopyingB ? g.p.b_row : 1),
        kCopyingB ? g.p.b_row : g.p.b_column, g.p.n - column0, piece.length, slice_length, thread);
    if constexpr (Layout::kPacks) {
      if (g.own.counts != nullptr) packed.WaitForGroup(g.own, piece.tile_m);
    }
    for (int first = 0; first < longest; first += Layout::kSliceDepth) {
      BarrierWait(ring.Empty(), ring.parity);
      if constexpr (Layout::kPacks) {
        if (g.own.counts != nullptr) packed.WaitForPhase(g.own, piece.begin + first);
      }
      if (kAnyBox && thread == 0) {
        // A stage of one body comes back with its last loads under way, which the copy engine may
        // overtake: one launch in a hundred was wrong without this.
        if constexpr (Layout::kSteps == 1) OrderBoxesBehindAccesses();
        BarrierArriveExpecting(ring.Full(), Layout::kBoxBytes);
        if constexpr (Layout::kBoxA) {
          FfmaCopyBoxes<kSlices, Layout::kSliceDepth, Layout::kPitchA>(
              ring.Stage(), map_a, row0, piece.begin + first, slice_length,
              static_cast<int>(piece.batch) * g.box_step_a, ring.Full());
        }
        if constexpr (Layout::kBoxB) {
          FfmaCopyBoxes<kSlices, Layout::kSliceDepth, Layout::kPitchB>(
              ring.Stage() + Layout::kBytesA, map_b, column0, piece.begin + first, slice_length,
              static_cast<int>(piece.batch) * g.box_step_b, ring.Full());
        }
      }
      if constexpr (!Layout::kBoxA) a.Copy(ring.Stage());
      if constexpr (!Layout::kBoxB) b.Copy(ring.Stage() + Layout::kBytesA);
      if constexpr (kAnyThreads) BarrierArriveAfterCopies(ring.Full());
      // When all blocks begin at once, none should wait behind what others need later.
      if constexpr (kAnyThreads && kSlices == 1) {
        if (i == 0 && first == 0) WaitForCopies();
      }
      ring.GoOn();
    }
  }
  if constexpr (Layout::kPacks) {
    if (g.own.counts != nullptr) FfmaLeavePacking(g.own);
  }
  // Shared memory must not be given away under copies that are on their way. Boxes have arrived
  // when consumers are done.
  if constexpr (kAnyThreads) WaitForCopies();
}

// Sums a piece of work of `length` products. Every stage is waited for and handed back, but a
// slice's last ones may be partly or wholly empty. Products that do not exist must not be added as
// 0 * 0: that would turn a sum of -0 into +0, and the bits would differ from those of other
// kernels. Of a narrow piece a thread has its first kColumns columns alone.
template <FfmaKernel kKernel, typename Pieces, typename Ring, int kColumns>
__device__ __forceinline__ void FfmaSum(const FfmaGemm& g, const Pieces& pieces, int i, int slice,
                                        uint32_t offset_a, uint32_t offset_b, Ring* ring,
                                        float (&sum)[kKernel.shape.rows][kColumns]) {
  using Layout = FfmaLayout<kKernel>;
  constexpr int kSlices = kKernel.shape.slices;
  constexpr int kSteps = Layout::kSteps;
#pragma unroll
  for (int r = 0; r < Layout::kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sum[r][j] = 0;
  }
  // Gives the stage to the producers, once the warp's loads from it have been issued.
  const auto hand_back = [&] {
    __syncwarp();
    if (ElectOne()) BarrierArrive(ring->Empty());
  };
  float a[2][Layout::kRows];
  float b[2][kColumns];
  const FfmaDepth depth = FfmaDepth::Of<kSlices, Layout::kSliceDepth>(pieces.At(g, i), slice);
  if (depth.stages > 0) {
    BarrierWait(ring->Full(), ring->parity);
    FfmaLoad<kKernel>(a[0], b[0], ring->Stage() + offset_a, ring->Stage() + offset_b);
  }
  const bool full_to_the_end = depth.full_stages == depth.stages;
  for (int left = depth.full_stages; left > 0; --left) {
    Ring after = *ring;
    after.GoOn();
    uint32_t from_a = ring->Stage() + offset_a;
    uint32_t from_b = ring->Stage() + offset_b;
#pragma unroll 1
    for (int o = 0; o < kSteps; ++o) {
#pragma unroll
      for (int u = 0; u < kFfmaUnroll; ++u) {
        // Operands of the next k-step come in while this one is computed.
        if (u < kFfmaUnroll - 1) {
          FfmaLoad<kKernel>(a[(u + 1) & 1], b[(u + 1) & 1], from_a + (u + 1) * Layout::kPitchA,
                            from_b + (u + 1) * Layout::kPitchB);
        } else {
          if (o == kSteps - 1) {
            if constexpr (kSteps == 1) hand_back();
            if (left > 1 || !full_to_the_end) BarrierWait(after.Full(), after.parity);
            from_a = after.Stage() + offset_a;
            from_b = after.Stage() + offset_b;
          } else {
            from_a += kFfmaUnroll * Layout::kPitchA;
            from_b += kFfmaUnroll * Layout::kPitchB;
          }
          FfmaLoad<kKernel>(a[(u + 1) & 1], b[(u + 1) & 1], from_a, from_b);
        }
        FfmaStep(sum, a[u & 1], b[u & 1]);
      }
    }
    if constexpr (kSteps > 1) hand_back();
    *ring = after;
  }
  if (full_to_the_end) return;
  const FfmaPlace<kKernel> again(ThreadIndexAgain());
  const FfmaDepth rest = FfmaDepth::Of<kSlices, Layout::kSliceDepth>(pieces.At(g, i), again.slice);
  const auto load = [&](int l, int into) {
    FfmaLoad<kKernel>(a[into], b[into], ring->Stage() + offset_a + l * Layout::kPitchA,
                      ring->Stage() + offset_b + l * Layout::kPitchB);
  };
  // Where warps share tiles, operands of the next k-step come in while this one is computed, but
  // for 8 x 16 results: ptxas would place the operands of the main loop such that it takes 2 %
  // longer.
  if constexpr (kSlices > 1 && kColumns < 16) {
#pragma unroll 1
    for (int l = 0; l < rest.tail; l += 2) {
      load(min(l + 1, rest.tail - 1), 1);
      FfmaStep(sum, a[0], b[0]);
      if (l + 1 == rest.tail) break;
      load(min(l + 2, rest.tail - 1), 0);
      FfmaStep(sum, a[1], b[1]);
    }
  } else {
#pragma unroll 1
    for (int l = 0; l < rest.tail; ++l) {
      FfmaStep(sum, a[0], b[0]);
      load(l + 1 < rest.tail ? l + 1 : l, 0);
    }
  }
#pragma unroll 1
  for (int s = rest.full_stages; s < rest.stages; ++s) {
    if (s != rest.full_stages) BarrierWait(ring->Full(), ring->parity);
    hand_back();
    ring->GoOn();
  }
}

// The kernel's body.
template <FfmaKernel kKernel, typename Pieces, int kConsumerRegisters, int kProducerRegisters>
__device__ __forceinline__ void FfmaMultiply(const FfmaGemm& g, const CUtensorMap* map_a,
                                             const CUtensorMap* map_b) {
  using Layout = FfmaLayout<kKernel>;
  constexpr int kStages = Layout::kStages;
  extern __shared__ __align__(128) unsigned char shared_raw[];
  FfmaRing<Layout::kStageBytes, kStages> ring;
  ring.base = SharedAddress(shared_raw);
  ring.parity = 0;
  if constexpr (kKernel.shape.lent_stages > 0) ring.stages = g.ring_stages;
  // Blocks whose warps share tiles have one piece of work.
  constexpr bool kOnePiece = kKernel.shape.slices > 1;
  std::conditional_t<kOnePiece, FfmaHeldPiece, Pieces> pieces;
  if constexpr (kOnePiece) {
    auto* piece = reinterpret_cast<FfmaPiece*>(shared_raw + Layout::kRingBytes);
    pieces.piece = piece;
    if (threadIdx.x == 0) *piece = Pieces::OfBlock(g);
    if (threadIdx.x == 32 * Layout::kConsumers) {
      if constexpr (Layout::kBoxA) PrefetchMap(map_a);
      if constexpr (Layout::kBoxB) PrefetchMap(map_b);
    }
  }
  // By another warp, at the same time.
  if (threadIdx.x == (kOnePiece ? 32 : 0)) {
    constexpr int kArrivals = (Layout::kBoxA || Layout::kBoxB ? 1 : 0) +
                              (Layout::kBoxA && Layout::kBoxB ? 0 : kFfmaProducers);
    auto each = ring;
    if constexpr (kKernel.shape.lent_stages > 0) each.stages = kStages;
    for (int s = 0; s < kStages; ++s) {
      BarrierInit(each.Full(), kArrivals);
      BarrierInit(each.Empty(), Layout::kConsumers);
      each.GoOn();
    }
    BarrierInitFence();
  }
  LetKernelAfterStart();
  __syncthreads();

  if (static_cast<int>(threadIdx.x) >= 32 * Layout::kConsumers) {
    ShrinkRegistersTo<kProducerRegisters>();
    FfmaProduce<kKernel>(g, pieces, map_a, map_b, ring);
    return;
  }
  GrowRegistersTo<kConsumerRegisters>();
  const FfmaPlace<kKernel> place(static_cast<int>(threadIdx.x));
  const uint32_t offset_a = place.slice * Layout::kSliceDepth * Layout::kPitchA + place.row * 4;
  const uint32_t offset_b =
      Layout::kBytesA + place.slice * Layout::kSliceDepth * Layout::kPitchB + place.column * 4;
  if constexpr (kKernel.shape.blocks == 2 && std::is_same_v<Pieces, FfmaQuarteredTiles>) {
    FfmaBeginLate(g);
  }
  const int count = pieces.Count(g);
  for (int i = 0; i < count; ++i) {
    float sum[Layout::kRows][Layout::kColumns];
    if (Layout::kNarrows && pieces.At(g, i).narrow) {
      float first[Layout::kRows][4];
      FfmaSum<kKernel>(g, pieces, i, place.slice, offset_a, offset_b, &ring, first);
#pragma unroll
      for (int r = 0; r < Layout::kRows; ++r) {
#pragma unroll
        for (int j = 0; j < Layout::kColumns; ++j) sum[r][j] = j < 4 ? first[r][j] : 0;
      }
    } else {
      FfmaSum<kKernel>(g, pieces, i, place.slice, offset_a, offset_b, &ring, sum);
    }
    if constexpr (std::is_same_v<Pieces, FfmaQuarteredTiles>) {
      if (g.quarters > 1) {
        // Asked and stored apart from the rest, for ptxas's sake: otherwise it would place the
        // operands of the main loop such that it takes 1 to 7 % longer.
        if (pieces.At(g, i).part >= 0) {
          FfmaStoreQuarter<kKernel>(g, pieces.At(g, i), sum);
          continue;
        }
        const int quarter = pieces.QuarterOf(g, i);
        FfmaFold<kKernel>(ring.base, g.kept, quarter, sum);
        if (quarter + 1 < g.quarters) continue;
      }
    }
    const FfmaPiece piece = pieces.At(g, i);
    if constexpr (kKernel.shape.slices == 1) {
      FfmaStore<kKernel>(g, piece, ring.base, sum);
    } else {
      FfmaMeet<kKernel>(g, piece, ring.base, sum);
      return;
    }
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_FFMA_MULTIPLY_CUH_
