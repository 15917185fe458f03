// What the data-parallel and the stream-K kernel share: the ring of stages in shared memory, its
// producers, and the multiplication of one tile.
//
// A CTA is four producer warps and kWarpsM x kWarpsN x kSlices consumer warps. A consumer thread
// holds 8 x 16 sums: its rows are 2 groups of 4, its columns 4 groups of 4, a warp's width apart,
// so that its 16-byte loads are consecutive. Slices share a tile and take a part of each stage's k.
//
// Both operands lie outer-contiguous in shared memory ([k][m] and [k][n]). A k-step then needs 8 +
// 16 operand registers and 2 + 4 LDS.128 for 128 FFMAs, and, as the epilogue multiplies every sum
// by alpha before it is stored, nothing ties four sums together: ptxas gives a sum and its A
// operand opposite register parity, which is what the register file wants (see README.md).
//
// AS MEASURED: names and layout of the text changed after the measurements, the machine code of the
// variants in variants.def did not, but for one (README.md, "What is as measured").

#ifndef GEMMD_KERNELS_LAB_DEVICE_TILE_CUH_
#define GEMMD_KERNELS_LAB_DEVICE_TILE_CUH_

#include "primitives.cuh"

namespace lab {

// Where A comes from.
constexpr int kAFromTransposed = 0;  // A^T (k x m) in memory, by TMA
constexpr int kAFromRows = 1;        // A (m x k), transposed on the way by 4-byte cp.async
// Where B comes from.
constexpr int kBByTma = 0;    // n a multiple of 4
constexpr int kBByWords = 1;  // 4-byte cp.async: any n, any alignment; slow (0.81x cuBLAS)

constexpr int TileThreads(int warps_m, int warps_n, int slices) {
  return warps_m * warps_n * slices * 32 + 128;
}

template <int kLaneRows, int kWarpsM, int kWarpsN, int kSlices, int kDepth, int kStages, int kA,
          int kB>
struct TileConfig {
  static constexpr int kLaneColumns = 32 / kLaneRows;
  static constexpr int kTileM = 8 * kLaneRows * kWarpsM;
  static constexpr int kTileN = 16 * kLaneColumns * kWarpsN;
  static constexpr int kConsumers = kWarpsM * kWarpsN * kSlices;  // warps
  static constexpr int kThreads = TileThreads(kWarpsM, kWarpsN, kSlices);
  static constexpr int kSliceDepth = kDepth / kSlices;
  // The 4 floats of padding spread the transposing copies over the banks: 4 k + m.
  static constexpr int kAPitch = kA == kAFromRows ? kTileM + 4 : kTileM;
  static constexpr int kBPitch = kTileN;
  static constexpr int kABytes = kAPitch * kDepth * 4;
  static constexpr int kBBytes = kBPitch * kDepth * 4;
  static constexpr int kStageBytes = kABytes + kBBytes;
  static constexpr int kSharedBytes = kStageBytes * kStages + 128 + 128;  // alignment, barriers
  static constexpr bool kAnyTma = kA == kAFromTransposed || kB == kBByTma;
  static constexpr bool kAnyWords = kA == kAFromRows || kB == kBByWords;
  static constexpr int kFullArrivals = (kAnyTma ? 1 : 0) + (kAnyWords ? 128 : 0);
  static_assert(kABytes % 128 == 0, "TMA wants B's part of a stage at a multiple of 128 bytes");
  static_assert(kTileN <= 256, "a box of TMA has at most 256 columns");
  static_assert(kDepth % 32 == 0, "four producer warps take 8 k each");
};

// The barriers lie behind the stages: `full` ones, and 64 bytes on the `empty` ones.
template <class Config, int kStages>
__device__ __forceinline__ void InitBarriers(uint32_t barriers) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      BarrierInit(barriers + s * 8, Config::kFullArrivals);
      BarrierInit(barriers + 64 + s * 8, Config::kConsumers);
    }
    BarrierInitFence();
  }
  __syncthreads();
}

// Copies stage k of one tile. All 128 producers call it, or the first alone when all is TMA's.
template <class F, int kDepth, int kA, int kB, class Arguments>
__device__ __forceinline__ void FillStage(const Arguments& p, const float* b_from, int b_stride,
                                          const CUtensorMap& map_a, const CUtensorMap& map_b,
                                          int tile_m, int tile_n, int k, uint32_t stage,
                                          uint32_t full, int producer, int lane) {
  if (F::kAnyTma && producer == 0) {
    BarrierExpect(full, (kA ? 0 : F::kABytes) + (kB ? 0 : F::kBBytes));
    if constexpr (kA == kAFromTransposed) {
      CopyBox(stage, &map_a, tile_m * F::kTileM, k * kDepth, full);
    }
    if constexpr (kB == kBByTma) {
      CopyBox(stage + F::kABytes, &map_b, tile_n * F::kTileN, k * kDepth, full);
    }
  }
  if constexpr (kA == kAFromRows) {
    // Warp w copies columns 8 w .. 8 w + 7 of every 32; its lanes are 8 (k) x 4 (rows): no two in
    // one bank.
    int kl = (producer >> 5) * 8 + (lane & 7), m0 = lane >> 3;
#pragma unroll
    for (int kb = 0; kb < kDepth; kb += 32) {
      int kg = k * kDepth + kb + kl;
      bool k_in = kg < p.k;
      int rows = p.m - tile_m * F::kTileM - m0;  // left from m0 on
      const float* from = p.a + (size_t)(tile_m * F::kTileM + m0) * p.lda + (k_in ? kg : 0);
      uint32_t to = stage + ((kb + kl) * F::kAPitch + m0) * 4;
      if (rows > F::kTileM - 4) {
        uint32_t bytes = k_in ? 4 : 0;
        size_t step = (size_t)p.lda * 4;
#pragma unroll 8
        for (int g = 0; g < F::kTileM / 4; ++g) {
          CopyAsync4(to + g * 16, from, bytes);
          from += step;
        }
      } else {
#pragma unroll 1
        for (int g = 0; g < F::kTileM / 4; ++g) {
          bool in = k_in && g * 4 < rows;
          CopyAsync4(to + g * 16, in ? from : p.a, in ? 4 : 0);
          from += (size_t)p.lda * 4;
        }
      }
    }
  }
  if constexpr (kB == kBByWords) {
#pragma unroll 1
    for (int c = producer; c < F::kTileN; c += 128) {
      int column = tile_n * F::kTileN + c;
      bool column_in = column < p.n;
      const float* from = b_from + (size_t)(k * kDepth) * b_stride + (column_in ? column : 0);
      uint32_t to = stage + F::kABytes + c * 4;
      if (k * kDepth + kDepth <= p.k) {
        uint32_t bytes = column_in ? 4 : 0;
#pragma unroll 8
        for (int r = 0; r < kDepth; ++r) {
          CopyAsync4(to + r * F::kBPitch * 4, from, bytes);
          from += b_stride;
        }
      } else {
#pragma unroll 1
        for (int r = 0; r < kDepth; ++r) {
          bool in = column_in && k * kDepth + r < p.k;
          CopyAsync4(to + r * F::kBPitch * 4, in ? from : b_from, in ? 4 : 0);
          from += b_stride;
        }
      }
    }
  }
  if constexpr (F::kAnyWords) CopyAsyncArrive(full);
}

// The place of a consumer thread in its tile.
template <class F, int kLaneRows, int kWarpsM, int kWarpsN>
struct Place {
  int warp_in_tile, slice, warp_m, warp_n, lane_m, lane_n;
  uint32_t a_offset, b_offset;  // of its first operands in a stage

  __device__ __forceinline__ Place(int warp, int lane) {
    warp_in_tile = warp % (kWarpsM * kWarpsN);
    slice = warp / (kWarpsM * kWarpsN);
    warp_m = warp_in_tile % kWarpsM;
    warp_n = warp_in_tile / kWarpsM;
    lane_m = lane / F::kLaneColumns;
    lane_n = lane % F::kLaneColumns;
    a_offset = (slice * F::kSliceDepth * F::kAPitch + warp_m * 8 * kLaneRows + lane_m * 4) * 4;
    b_offset =
        F::kABytes +
        (slice * F::kSliceDepth * F::kBPitch + warp_n * 16 * F::kLaneColumns + lane_n * 4) * 4;
  }

  // Its first row and column in C.
  __device__ __forceinline__ int Row(int tile_m) const {
    return tile_m * F::kTileM + warp_m * 8 * kLaneRows + lane_m * 4;
  }
  __device__ __forceinline__ int Column(int tile_n) const {
    return tile_n * F::kTileN + warp_n * 16 * F::kLaneColumns + lane_n * 4;
  }
};

template <class F, int kLaneRows>
__device__ __forceinline__ void LoadFragments(float (&a)[8], float (&b)[16], uint32_t from_a,
                                              uint32_t from_b) {
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    float4 v = LoadShared4(from_a + q * kLaneRows * 16);
    a[q * 4] = v.x;
    a[q * 4 + 1] = v.y;
    a[q * 4 + 2] = v.z;
    a[q * 4 + 3] = v.w;
  }
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    float4 v = LoadShared4(from_b + q * F::kLaneColumns * 16);
    b[q * 4] = v.x;
    b[q * 4 + 1] = v.y;
    b[q * 4 + 2] = v.z;
    b[q * 4 + 3] = v.w;
  }
}

// One k-step, columns outside, rows up and down inside: at a turn the operand stays the same.
__device__ __forceinline__ void MultiplyAdd(float (&c)[8][16], const float (&a)[8],
                                            const float (&b)[16]) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int i0 = 0; i0 < 8; ++i0) {
      int i = (j & 1) ? 7 - i0 : i0;
      c[i][j] = fmaf(a[i], b[j], c[i][j]);
    }
  }
}

template <int kRows, int kColumns>
__device__ __forceinline__ void Clear(float (&c)[kRows][kColumns]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) c[i][j] = 0.f;
  }
}

// Adds one stage's product to c. a[0] and b[0] hold its first k-step, and at the end the next
// stage's: fragments are loaded a k-step ahead, in the last one after waiting for `next_full`. The
// body is kUnroll k-steps: 8 or 12 fit the instruction cache, 16 lose 3 %, 32 17 %.
template <class F, int kLaneRows, int kUnroll, class PlaceType>
__device__ __forceinline__ void MultiplyStage(float (&c)[8][16], float (&a)[2][8],
                                              float (&b)[2][16], const PlaceType& place,
                                              uint32_t current, uint32_t next, bool any_next,
                                              uint32_t next_full, uint32_t next_parity) {
  uint32_t from_a = current + place.a_offset, from_b = current + place.b_offset;
  constexpr int kBodies = F::kSliceDepth / kUnroll;
#pragma unroll 1
  for (int body = 0; body < kBodies; ++body) {
#pragma unroll
    for (int kk = 0; kk < kUnroll; ++kk) {
      if (kk < kUnroll - 1) {
        LoadFragments<F, kLaneRows>(a[(kk + 1) & 1], b[(kk + 1) & 1],
                                    from_a + (kk + 1) * (F::kAPitch * 4),
                                    from_b + (kk + 1) * (F::kBPitch * 4));
      } else {
        if (body == kBodies - 1) {
          if (any_next) BarrierWait(next_full, next_parity);
          from_a = next + place.a_offset;
          from_b = next + place.b_offset;
        } else {
          from_a += kUnroll * F::kAPitch * 4;
          from_b += kUnroll * F::kBPitch * 4;
        }
        LoadFragments<F, kLaneRows>(a[(kk + 1) & 1], b[(kk + 1) & 1], from_a, from_b);
      }
      MultiplyAdd(c, a[kk & 1], b[kk & 1]);
    }
  }
}

// Four results of one row, those inside C.
__device__ __forceinline__ void StoreFour(float* c, int m, int n, int ldc, bool by_four, int row,
                                          int column, float x, float y, float z, float w) {
  if (row >= m) return;
  float* to = c + (size_t)row * ldc + column;
  if (by_four) {
    if (column < n) *(float4*)to = make_float4(x, y, z, w);
  } else {
    if (column < n) to[0] = x;
    if (column + 1 < n) to[1] = y;
    if (column + 2 < n) to[2] = z;
    if (column + 3 < n) to[3] = w;
  }
}

}  // namespace lab

#endif  // GEMMD_KERNELS_LAB_DEVICE_TILE_CUH_
