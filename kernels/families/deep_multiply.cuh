// The device code of the deep family; deep.cu draws the picture.

#ifndef GEMMD_KERNELS_FAMILIES_DEEP_MULTIPLY_CUH_
#define GEMMD_KERNELS_FAMILIES_DEEP_MULTIPLY_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/deep_feed.cuh"
#include "kernels/families/deep_gemm.h"
#include "kernels/families/strided_gemm.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace gemm {

// A thread's 8 x 8 results: rows 4 * (tx + 8 * (i / 4)) + i % 4 of the tile, and columns in two
// quads. Of four neighbours two share each address that they load from.
struct DeepPlace {
  static constexpr int kRows = 8;
  static constexpr int kColumns = 8;
  static constexpr int kThreads = 64;  // that have the whole tile

  int tx;
  int ty;
  int half;  // of the columns
  int way;

  __device__ __forceinline__ explicit DeepPlace(int thread)
      : tx((thread & 1) | ((thread >> 1) & 6)),
        ty(((thread >> 1) & 1) | ((thread >> 3) & 2)),
        half(thread / 32 % 2),
        way(thread / kThreads) {}

  // Results lie in quads of columns, [i][q][thread].
  __device__ __forceinline__ static int QuadAt(int i, int q) { return (i * 2 + q) * kThreads; }
  __device__ __forceinline__ static void Find(int result, int* row, int* column) {
    const int quad = result / 4;
    const DeepPlace place(quad % kThreads);
    const int i = quad / kThreads / 2;
    const int q = quad / kThreads % 2;
    *row = i / 4 * 32 + place.tx * 4 + i % 4;
    *column = place.half * 32 + q * 16 + place.ty * 4 + result % 4;
  }
};

// A warp's sums: of every stage the products of its way.
class DeepSums {
 public:
  __device__ __forceinline__ DeepSums(const DeepGemm& g, const DeepPlace& place)
      : place_(place), turned_a_(g.a.along), turned_b_(g.b.along) {}

  // `ready`: the ring's barrier of a full or a turned stage, less Full().
  __device__ __forceinline__ void Sum(int stages, DeepRing ring, uint32_t ready) {
    // A turned quad's place among 16 is that of the quad with the granule's bits flipped: the third
    // bit of those is the way's, so it is the thread's two quads of columns that change places.
    uint32_t from_a[2];
    uint32_t from_b[2];
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      const int granule = 2 * place_.way + d;
      from_a[d] =
          ring.base + granule * kGranuleBytes + DeepUnit(place_.tx, granule, turned_a_) * 16;
      from_b[d] = ring.base + kDeepOperandBytes + granule * kGranuleBytes + place_.half * 128 +
                  DeepUnit(place_.ty, granule % 4, turned_b_) * 16;
    }
    // The last product of a stage is added when the next one's first operands are on their way; so
    // is one of zeros before the first.
#pragma unroll
    for (int i = 0; i < DeepPlace::kRows; ++i) {
      a_[1][i] = 0;
#pragma unroll
      for (int j = 0; j < DeepPlace::kColumns; ++j) sum_[i][j] = 0;
    }
#pragma unroll
    for (int j = 0; j < DeepPlace::kColumns; ++j) b_[1][j] = 0;
    // Apart from the ring: a register for each, so that the loop has little else to do.
    const bool leader = threadIdx.x % 32 == 0;
    uint32_t full = ring.Full() + ready;
    uint32_t to_empty = ring.Empty() - full;
    asm volatile("" : "+r"(to_empty));  // not one of two constants
    uint32_t parity = ring.parity;
    int left = kDeepStages;  // in this round of the ring
#pragma unroll 1
    for (; stages > 0; --stages) {
      BarrierWait(full, parity);
#pragma unroll
      for (int l = 0; l < kProducts; ++l) {
        Load(l % 2, from_a[l / kLaneGranule] + l % kLaneGranule * kPitch,
             from_b[l / kLaneGranule] + l % kLaneGranule * kPitch);
        Add((l + 1) % 2);
      }
      __syncwarp();
      if (leader) BarrierArrive(full + to_empty);
      uint32_t stage_step = kDeepStageBytes;
      uint32_t barrier_step = 8;
      if (--left == 0) {
        stage_step -= kDeepStages * kDeepStageBytes;
        barrier_step -= 8 * kDeepStages;
        left = kDeepStages;
        parity ^= 1;
      }
      full += barrier_step;
#pragma unroll
      for (int d = 0; d < 2; ++d) {
        from_a[d] += stage_step;
        from_b[d] += stage_step;
      }
    }
    Add(1);
  }

  // To [way][kDeepTileResults].
  __device__ __forceinline__ void Store(uint32_t to) const {
    to += 16 * (place_.way * (kDeepTileResults / 4) + threadIdx.x % DeepPlace::kThreads);
    const int flip = turned_b_ ? place_.way / 2 : 0;
#pragma unroll
    for (int i = 0; i < DeepPlace::kRows; ++i) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        StoreShared4(to + 16 * DeepPlace::QuadAt(i, 0) + 16 * DeepPlace::kThreads * (q ^ flip),
                     make_float4(sum_[i][4 * q], sum_[i][4 * q + 1], sum_[i][4 * q + 2],
                                 sum_[i][4 * q + 3]));
      }
    }
  }

 private:
  static constexpr int kProducts = kDeepStage / kDeepWays;  // of a stage
  static constexpr int kPitch = 4 * kDeepTile;
  static constexpr int kGranuleBytes = kLaneGranule * kPitch;

  __device__ __forceinline__ void Load(int to, uint32_t from_a, uint32_t from_b) {
    LoadQuads<64>(from_b, b_[to]);
    LoadQuads<128>(from_a, a_[to]);
  }
  template <int kApart>
  __device__ __forceinline__ static void LoadQuads(uint32_t from, float (&to)[8]) {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const float4 v = LoadShared4(from + q * kApart);
      to[4 * q] = v.x;
      to[4 * q + 1] = v.y;
      to[4 * q + 2] = v.z;
      to[4 * q + 3] = v.w;
    }
  }
  // Columns to and fro, so that what is read last is read again.
  __device__ __forceinline__ void Add(int from) {
#pragma unroll
    for (int i = 0; i < DeepPlace::kRows; ++i) {
#pragma unroll
      for (int turn = 0; turn < DeepPlace::kColumns; ++turn) {
        const int j = i % 2 != 0 ? DeepPlace::kColumns - 1 - turn : turn;
        sum_[i][j] = MultiplyAdd(a_[from][i], b_[from][j], sum_[i][j]);
      }
    }
  }

  DeepPlace place_;
  bool turned_a_;
  bool turned_b_;
  float sum_[DeepPlace::kRows][DeepPlace::kColumns];
  float a_[2][DeepPlace::kRows];
  float b_[2][DeepPlace::kColumns];
};

__device__ __forceinline__ float4 AddFours(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z),
                     __fadd_rn(a.w, b.w));
}

// The kernel's body. Warps that multiply come first, then those that turn, then those that copy.
template <bool kBoxes>
__device__ __forceinline__ void DeepMultiply(const DeepGemm& g, const CUtensorMap* map_a,
                                             const CUtensorMap* map_b) {
  constexpr int kThreads = 32 * kDeepWarps;
  extern __shared__ __align__(1024) float shared_raw[];
  DeepRing ring;
  ring.base = SharedAddress(shared_raw);
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const DeepPiece piece(g, static_cast<int>(blockIdx.x));
  const bool turned = g.a.along || g.b.along;
  if (thread == kThreads) {
    DeepRing each = ring;
    for (int s = 0; s < kDeepStages; ++s) {
      BarrierInit(each.Full(), kBoxes ? 1 : 32 * kDeepCopiers);
      BarrierInit(each.Turned(), 32 * kDeepTurners);
      BarrierInit(each.Empty(), kDeepWarps);
      each.GoOn();
    }
    BarrierInitFence();
  }
  if (kBoxes && thread == 32 * (kDeepWarps + kDeepTurners)) {
    DeepPrefetchBoxes(g, piece, map_a, map_b);
  }
  __syncthreads();
  if (warp >= kDeepWarps + kDeepTurners) {
    const int mine = thread - 32 * (kDeepWarps + kDeepTurners);
    if (!kBoxes || mine == 0) {
      if constexpr (!kBoxes) DeepPrefetchCopies(g, piece, mine);
      WaitForKernelBefore();
      if (mine == 0) LetKernelAfterStart();
      if constexpr (kBoxes) {
        DeepFeedBoxes(g, piece, map_a, map_b, ring);
      } else {
        ring.parity = 1;
        DeepFeedCopies(g, piece, mine, &ring);
        WaitForCopies();
      }
    }
  } else if (warp >= kDeepWarps) {
    DeepTurnWhatIsAlong(g, piece.stages, thread - kThreads, &ring);
  } else {
    DeepSums sums(g, DeepPlace(thread));
    sums.Sum(piece.stages, ring, turned ? ring.Turned() - ring.Full() : 0);
    asm volatile("bar.sync 2, %0;" ::"n"(kThreads) : "memory");  // the ring has run dry
    sums.Store(ring.base);
    asm volatile("bar.sync 2, %0;" ::"n"(kThreads) : "memory");
    // What was before this kernel may read the workspace still.
    WaitForKernelBefore();
    constexpr int kQuads = kDeepTileResults / 4;
    float4* to = reinterpret_cast<float4*>(g.partial) + int64_t{blockIdx.x} * kQuads;
#pragma unroll
    for (int quad = thread; quad < kQuads; quad += kThreads) {
      float4 total = LoadShared4(ring.base + 16 * quad);
#pragma unroll
      for (int way = 1; way < kDeepWays; ++way) {
        total = AddFours(total, LoadShared4(ring.base + 16 * (way * kQuads + quad)));
      }
      __stcg(to + quad, total);
    }
  }
}

// The second pass: a block adds the chunks of as many quads of results as its threads have for each
// lane of chunks.
inline constexpr int kDeepSumThreads = 256;

template <int kLanes>
__device__ __forceinline__ void DeepAddChunks(const DeepGemm& g, float4* sums) {
  constexpr int kQuads = kDeepSumThreads / kLanes;
  constexpr unsigned kSlices = kDeepTileResults / 4 / kQuads;  // blocks of a tile
  constexpr int kMost =
      kLanes < kDeepChunkLanes ? 1 : (kDeepMostChunks + kDeepChunkLanes - 1) / kDeepChunkLanes;
  const auto thread = static_cast<int>(threadIdx.x);
  const unsigned tile = blockIdx.x / kSlices;
  const int first = static_cast<int>(blockIdx.x % kSlices) * kQuads;
  const auto* from = reinterpret_cast<const float4*>(g.partial) +
                     int64_t{tile} * g.chunks * (kDeepTileResults / 4) + first + thread % kQuads;
  const int lane = thread / kQuads;
  WaitForKernelBefore();
  LetKernelAfterStart();
  float4 each[kMost];
#pragma unroll
  for (int c = 0; c < kMost; ++c) {
    const int chunk = lane + c * kDeepChunkLanes;
    if (chunk < g.chunks) each[c] = __ldcg(from + chunk * (kDeepTileResults / 4));
  }
  // While those are on their way.
  const auto tiles_n = static_cast<unsigned>(g.tiles_n);
  const unsigned tiles = static_cast<unsigned>(g.tiles_m) * tiles_n;
  const unsigned batch = tile / tiles;
  const unsigned tile_row = (tile - batch * tiles) / tiles_n;
  const unsigned tile_column = tile - batch * tiles - tile_row * tiles_n;
  float4 sum = each[0];
#pragma unroll
  for (int c = 1; c < kMost; ++c) {
    if (lane + c * kDeepChunkLanes < g.chunks) sum = AddFours(sum, each[c]);
  }
  constexpr int kResults = 4 * kQuads;
  constexpr int kEach = (kResults + kDeepSumThreads - 1) / kDeepSumThreads;
  int64_t rows[kEach];
  int64_t columns[kEach];
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    int row = 0;
    int column = 0;
    DeepPlace::Find(first * 4 + thread + r * kDeepSumThreads, &row, &column);
    rows[r] = int64_t{tile_row} * kDeepTile + row;
    columns[r] = int64_t{tile_column} * kDeepTile + column;
  }
  sums[thread] = sum;
  __syncthreads();
  const auto* elements = reinterpret_cast<const float*>(sums);
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const int result = thread + r * kDeepSumThreads;
    if (result >= kResults || rows[r] >= g.p.m || columns[r] >= g.p.n) continue;
    float lanes[kLanes];
#pragma unroll
    for (int l = 0; l < kLanes; ++l) lanes[l] = elements[result + l * kResults];
    float total = lanes[0];
#pragma unroll
    for (int l = 1; l < kLanes; ++l) {
      if (l < g.chunks) total = __fadd_rn(total, lanes[l]);
    }
    StoreElement(g.p, batch, rows[r], columns[r], total);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DEEP_MULTIPLY_CUH_
