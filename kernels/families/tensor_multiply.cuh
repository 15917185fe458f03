// The body of tensor's kernels: producers fill the ring, consumers add up products and store.

#ifndef GEMMD_KERNELS_FAMILIES_TENSOR_MULTIPLY_CUH_
#define GEMMD_KERNELS_FAMILIES_TENSOR_MULTIPLY_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/strided_gemm.cuh"
#include "kernels/families/tensor_feed.cuh"
#include "kernels/families/tensor_gemm.h"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_f64.cuh"
#include "kernels/ptx/warpgroup.cuh"

namespace gemm {

inline constexpr int kTensorGroupRows = 1024;  // of D, see TensorTileAt

// Where a block's tile lies: blocks go down groups of rows, so that those that run together share
// their operands in the L2 cache.
struct TensorTile {
  int64_t batch;
  int64_t row;
  int64_t column;
};
template <int kTileM, int kTileN>
__device__ inline TensorTile TensorTileAt(const StridedGemm<double>& p, uint32_t number) {
  const auto tiles_m = static_cast<uint32_t>((p.m - 1) / kTileM + 1);
  const auto tiles_n = static_cast<uint32_t>((p.n - 1) / kTileN + 1);
  const uint32_t group_rows = min(uint32_t{kTensorGroupRows / kTileM}, tiles_m);
  const uint32_t batch = number / (tiles_m * tiles_n);
  const uint32_t in_batch = number - batch * (tiles_m * tiles_n);
  const uint32_t group = in_batch / (group_rows * tiles_n);
  const uint32_t in_group = in_batch - group * (group_rows * tiles_n);
  const uint32_t rows = min(group_rows, tiles_m - group * group_rows);
  const uint32_t column = in_group / rows;
  return {batch, int64_t{group * group_rows + in_group - column * rows} * kTileM,
          int64_t{column} * kTileN};
}

template <int I>
struct TensorLayout {
  static constexpr TensorShape kShape = kTensorShapes[I];
  static constexpr int kTileM = kShape.tile_m();
  static constexpr int kTileN = kShape.tile_n();
  static constexpr int kConsumers = kShape.consumers();
  static constexpr int kSlabBytes = kShape.slab_bytes();
  static constexpr int kStageBytes = kShape.slabs * kSlabBytes;
  static constexpr int kRingBytes = kShape.ring_bytes();
  static constexpr int kEightsM = kShape.warp_m / 8;
  static constexpr int kEightsN = kShape.warp_n / 8;
  static_assert(kEightsM % 2 == 0, "an mma has 16 rows");
};

// A stage of the ring, with its barriers: the first for "full", the second, behind all of those,
// for "empty".
template <int I>
struct TensorRing {
  using L = TensorLayout<I>;
  uint32_t base;
  uint32_t stage;
  uint32_t barrier;
  uint32_t parity;

  __device__ TensorRing(uint32_t shared, uint32_t first_parity)
      : base(shared), stage(shared), barrier(shared + L::kRingBytes), parity(first_parity) {}
  __device__ uint32_t full() const { return barrier; }
  __device__ uint32_t empty() const { return barrier + L::kShape.stages * 8; }
  __device__ void GoOn() {
    stage += L::kStageBytes;
    barrier += 8;
    if (stage == base + L::kRingBytes) {
      stage = base;
      barrier = base + L::kRingBytes;
      parity ^= 1;
    }
  }
};

template <int I>
using TensorSums = double[TensorLayout<I>::kEightsM / 2][TensorLayout<I>::kEightsN][4];

// Adds up the products of one warp's part of a tile. A stage goes back once all of it is in
// registers. With mma of 8 products the operands of the next half of a slab are loaded beside the
// last row of mma of this one, across the ends of stages too; with mma of 16, which small parts
// have, a warp waits for its own, and others multiply meanwhile.
template <int I, bool kAAlongK, bool kBAlongK>
__device__ __forceinline__ void TensorConsume(TensorRing<I>& ring, int64_t products, int warp_row,
                                              int warp_column, TensorSums<I>& sum) {
  using L = TensorLayout<I>;
  constexpr int kRows = L::kEightsM / 2;  // of mma
  constexpr int kFours = L::kShape.fours;
  constexpr int kStageK = L::kShape.slabs * kTensorSlab;
  constexpr int kSteps = kStageK / (4 * kFours);
  static_assert(kSteps % 2 == 0, "registers take turns");
  const uint32_t a_offset = TensorFragmentOffset(kAAlongK, warp_row);
  const uint32_t b_offset =
      TensorFragmentOffset(kBAlongK, warp_column) + L::kTileM * kTensorLineBytes;
  double a[2][2][kFours];
  double b[2][L::kEightsN][kFours];
  const auto load_a = [&](int step, int r) {
    const uint32_t from = ring.stage + a_offset + step * kFours / 4 * L::kSlabBytes;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      TensorLoadEight<kAAlongK>(from, 2 * r + h, step * kFours % 4, a[(step * kRows + r) % 2][h]);
    }
  };
  const auto load_first = [&](int step) {
#pragma unroll
    for (int c = 0; c < L::kEightsN; ++c) {
      TensorLoadEight<kBAlongK>(ring.stage + b_offset + step * kFours / 4 * L::kSlabBytes, c,
                                step * kFours % 4, b[step % 2][c]);
    }
    load_a(step, 0);
  };
  const auto give_back = [&] {
    __syncwarp();
    if (threadIdx.x % 32 == 0) BarrierArrive(ring.empty());
  };
  if (kFours == 2 && products > 0) {
    BarrierWait(ring.full(), ring.parity);
    load_first(0);
  }
  for (int64_t left = products; left > 0; left -= kStageK) {
    if (kFours == 4) BarrierWait(ring.full(), ring.parity);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (kFours == 4) load_first(step);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r + 1 < kRows) {
          load_a(step, r + 1);
        } else if (step + 1 < kSteps) {
          if (kFours == 2) load_first(step + 1);
        } else {
          give_back();
          if (kFours == 2) {
            ring.GoOn();
            if (left > kStageK) {
              BarrierWait(ring.full(), ring.parity);
              load_first(0);
            }
          }
        }
#pragma unroll
        for (int c = 0; c < L::kEightsN; ++c) {
          MultiplyF64(sum[r][c], a[(step * kRows + r) % 2][0], a[(step * kRows + r) % 2][1],
                      b[step % 2][c]);
        }
      }
    }
    if (kFours == 4) ring.GoOn();
  }
}

// Fills the ring; what a stage has beyond k, with zeros.
template <int I>
__device__ __forceinline__ void TensorProduce(const TensorGemm& g, const TensorTile& tile,
                                              TensorRing<I>& ring,
                                              TensorFeed<TensorLayout<I>::kTileM>& a,
                                              TensorFeed<TensorLayout<I>::kTileN>& b,
                                              int64_t k_begin, int64_t products) {
  using L = TensorLayout<I>;
  const StridedGemm<double>& p = g.p;
  a.Begin(tile.batch * p.a_batch, tile.row,
          static_cast<int>(min(p.m - tile.row, int64_t{L::kTileM})), k_begin);
  b.Begin(tile.batch * p.b_batch, tile.column,
          static_cast<int>(min(p.n - tile.column, int64_t{L::kTileN})), k_begin);
  for (int64_t left = products; left > 0; left -= L::kShape.slabs * kTensorSlab) {
    BarrierWait(ring.empty(), ring.parity);
#pragma unroll
    for (int slab = 0; slab < L::kShape.slabs; ++slab) {
      const uint32_t to = ring.stage + slab * L::kSlabBytes;
      const int64_t of_slab = max(left - slab * kTensorSlab, int64_t{0});
      a.Copy(to, of_slab);
      b.Copy(to + L::kTileM * kTensorLineBytes, of_slab);
    }
    if (left < L::kShape.slabs * kTensorSlab) {
      // What was filled up has to be seen as well.
      WaitForCopies();
      BarrierArrive(ring.full());
    } else {
      BarrierArriveAfterCopies(ring.full());
    }
    ring.GoOn();
  }
}

// Results, or the sums of a chunk as they are.
template <int I>
__device__ __forceinline__ void TensorStore(const TensorGemm& g, const TensorTile& tile,
                                            int warp_row, int warp_column,
                                            const TensorSums<I>& sum) {
  using L = TensorLayout<I>;
  constexpr int kEightsM = L::kEightsM;
  constexpr int kEightsN = L::kEightsN;
  const StridedGemm<double>& p = g.p;
  const int rows = static_cast<int>(min(p.m - tile.row, int64_t{L::kTileM}));
  const int columns = static_cast<int>(min(p.n - tile.column, int64_t{L::kTileN}));
  const bool whole = g.partial == nullptr;
  double* d = whole ? p.d + tile.batch * p.d_batch
                    : g.partial + (blockIdx.y * p.batch_count + tile.batch) * p.m * p.n;
  const int64_t d_row = whole ? p.d_row : p.n;
  const double alpha = whole ? p.alpha : 1;
  const bool plain = !whole || p.beta == 0;
  const bool by_16 =
      plain && (reinterpret_cast<uint64_t>(d) | static_cast<uint64_t>(d_row * 8)) % 16 == 0;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < kEightsM; ++r) {
    const int i = warp_row + r * 8 + lane / 4;
    if (i >= rows) continue;
    double* row = d + (tile.row + i) * d_row + tile.column;
#pragma unroll
    for (int c = 0; c < kEightsN; ++c) {
      const int j = warp_column + c * 8 + lane % 4 * 2;
      const double* of = &sum[r / 2][c][r % 2 * 2];
      if (by_16 && j + 1 < columns) {
        *reinterpret_cast<double2*>(row + j) =
            make_double2(Multiply(alpha, of[0]), Multiply(alpha, of[1]));
        continue;
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (j + e >= columns) continue;
        if (plain) {
          row[j + e] = Multiply(alpha, of[e]);
        } else {
          StoreElement(p, tile.batch, tile.row + i, tile.column + j + e, of[e]);
        }
      }
    }
  }
}

// All that a block does, in shared memory that begins at `shared`.
template <int I>
__device__ __forceinline__ void TensorMultiply(const TensorGemm& g, uint32_t shared) {
  using L = TensorLayout<I>;
  const StridedGemm<double>& p = g.p;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    TensorRing<I> ring(shared, 0);
    for (int s = 0; s < L::kShape.stages; ++s, ring.GoOn()) {
      BarrierInit(ring.full(), kTensorProducers);
      BarrierInit(ring.empty(), L::kConsumers / 32);
    }
  }
  const int64_t k_begin = blockIdx.y * g.chunk_length;
  const int64_t products = min(p.k - k_begin, g.chunk_length);
  TensorTile tile = TensorTileAt<L::kTileM, L::kTileN>(p, blockIdx.x);
  uint32_t number = blockIdx.x;
  // To this block's next tile, if there is one.
  const auto go_on = [&] {
    number += gridDim.x;
    if (number >= g.tiles) return false;
    tile = TensorTileAt<L::kTileM, L::kTileN>(p, number);
    return true;
  };
  if (thread >= L::kConsumers) {
    if constexpr (L::kShape.consumer_registers > 0) {
      ShrinkRegistersTo<L::kShape.producer_registers>();
    }
    const int64_t batch_steps = p.batch_count > 1 ? 1 : 0;  // else strides mean nothing
    TensorFeed<L::kTileM> a(p.a, p.a_row, p.a_column, batch_steps * p.a_batch, -0.0);
    TensorFeed<L::kTileN> b(p.b, p.b_column, p.b_row, batch_steps * p.b_batch, 0.0);
    TensorRing<I> ring(shared, 1);
    __syncthreads();
    WaitForKernelBefore();
    LetKernelAfterStart();
    do {
      TensorProduce<I>(g, tile, ring, a, b, k_begin, products);
    } while (go_on());
    return;
  }
  if constexpr (L::kShape.consumer_registers > 0) GrowRegistersTo<L::kShape.consumer_registers>();
  const int warp_row = thread / 32 / L::kShape.warps_n * L::kShape.warp_m;
  const int warp_column = thread / 32 % L::kShape.warps_n * L::kShape.warp_n;
  const bool a_along_k = TensorFeed<L::kTileM>::AlongK(p.a_row, p.a_column);
  const bool b_along_k = TensorFeed<L::kTileN>::AlongK(p.b_column, p.b_row);
  TensorRing<I> ring(shared, 0);
  __syncthreads();
  WaitForKernelBefore();
  do {
    TensorSums<I> sum = {};
    if (a_along_k && b_along_k) {
      TensorConsume<I, true, true>(ring, products, warp_row, warp_column, sum);
    } else if (a_along_k) {
      TensorConsume<I, true, false>(ring, products, warp_row, warp_column, sum);
    } else if (b_along_k) {
      TensorConsume<I, false, true>(ring, products, warp_row, warp_column, sum);
    } else {
      TensorConsume<I, false, false>(ring, products, warp_row, warp_column, sum);
    }
    TensorStore<I>(g, tile, warp_row, warp_column, sum);
  } while (go_on());
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_TENSOR_MULTIPLY_CUH_
