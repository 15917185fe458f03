// What brings stages of the deep family into shared memory, and turns what lies the other way.

#ifndef GEMMD_KERNELS_FAMILIES_DEEP_FEED_CUH_
#define GEMMD_KERNELS_FAMILIES_DEEP_FEED_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/families/deep_gemm.h"
#include "kernels/families/divisor.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/prefetch.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace gemm {

// A tile and a chunk of its k, by number.
struct DeepPiece {
  int64_t batch;
  int row;
  int column;
  int64_t begin;
  int stages;

  __device__ __forceinline__ DeepPiece(const DeepGemm& g, int number) {
    const int tile = Quotient(number, g.by_chunks);
    const int chunk = number - tile * g.chunks;
    const int matrix = Quotient(tile, g.by_tiles);
    const int in_matrix = tile - matrix * g.tiles_m * g.tiles_n;
    const int tile_row = Quotient(in_matrix, g.by_tiles_n);
    batch = matrix;
    row = tile_row * kDeepTile;
    column = (in_matrix - tile_row * g.tiles_n) * kDeepTile;
    begin = int64_t{chunk} * g.chunk_length;
    const int64_t length = min(g.p.k - begin, int64_t{g.chunk_length});
    stages = length <= 0 ? 0 : static_cast<int>((length + kDeepStage - 1) / kDeepStage);
  }
};

// The ring: a place in it, and the barriers of that place.
template <int kStages>
struct DeepRingOf {
  static constexpr uint32_t kRingBytes = kStages * kDeepStageBytes;

  uint32_t base;
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ uint32_t Stage() const { return base + kDeepStageBytes * slot; }
  __device__ __forceinline__ uint32_t Full() const { return base + kRingBytes + 8 * slot; }
  __device__ __forceinline__ uint32_t Turned() const { return Full() + 8 * kStages; }
  __device__ __forceinline__ uint32_t Empty() const { return Full() + 16 * kStages; }
  __device__ __forceinline__ void GoOn() {
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
};
using DeepRing = DeepRingOf<kDeepStages>;

// A block asks for so many stages at once; for more when the first has come, which would else come
// late, among those of all blocks.
inline constexpr int kDeepFirstStages = 2;

// Has the first stage on its way to the L2 cache. Writes end up there, so what the kernel before
// still writes is not missed; one thread.
__device__ __forceinline__ void DeepPrefetchBoxes(const DeepGemm& g, const DeepPiece& piece,
                                                  const CUtensorMap* map_a,
                                                  const CUtensorMap* map_b) {
  const auto batch = static_cast<int>(piece.batch);
  const auto k = static_cast<int>(piece.begin);
  PrefetchBox(map_a, g.a.along ? k : piece.row, g.a.along ? piece.row : k, batch * g.a.box_step);
  PrefetchBox(map_b, g.b.along ? k : piece.column, g.b.along ? piece.column : k,
              batch * g.b.box_step);
}

// By the copy engine; one thread. Stage s of the piece.
template <typename Ring>
__device__ __forceinline__ void DeepAskForBoxes(const DeepGemm& g, const DeepPiece& piece, int s,
                                                const CUtensorMap* map_a, const CUtensorMap* map_b,
                                                Ring* ring) {
  const auto batch = static_cast<int>(piece.batch);
  const int k = static_cast<int>(piece.begin) + s * kDeepStage;
  BarrierWait(ring->Empty(), ring->parity);
  OrderBoxesBehindAccesses();  // of those that turned, or still load, what was there
  BarrierArriveExpecting(ring->Full(), kDeepStageBytes);
  CopyBox(ring->Stage(), map_a, g.a.along ? k : piece.row, g.a.along ? piece.row : k,
          batch * g.a.box_step, ring->Full());
  CopyBox(ring->Stage() + kDeepOperandBytes, map_b, g.b.along ? k : piece.column,
          g.b.along ? piece.column : k, batch * g.b.box_step, ring->Full());
  ring->GoOn();
}

__device__ __forceinline__ void DeepFeedBoxes(const DeepGemm& g, const DeepPiece& piece,
                                              const CUtensorMap* map_a, const CUtensorMap* map_b,
                                              DeepRing ring) {
  const uint32_t first = ring.Full();
  ring.parity = 1;
  for (int s = 0; s < piece.stages; ++s) {
    if (s == kDeepFirstStages) BarrierWait(first, 0);
    DeepAskForBoxes(g, piece, s, map_a, map_b, &ring);
  }
}

// By threads, an element at a time: one operand of a stage, to where a box would bring it. Lines
// that do not exist are left out, since their results are not stored; products that do not are 0.
class DeepCopier {
 public:
  __device__ __forceinline__ DeepCopier(const DeepOperand& operand, int64_t batch, int first_line,
                                        int64_t begin, int64_t k, int thread)
      : along_(operand.along),
        lines_(static_cast<int>(min(operand.lines - first_line, int64_t{kDeepTile}))) {
    const int warp = thread / 32;
    lane_ = thread % 32;
    first_ = warp;
    left_ = k - begin - (along_ ? lane_ : warp);
    const int64_t line = first_line + (along_ ? warp : lane_);
    from_ = operand.base + batch * operand.batch_stride + line * operand.line_stride +
            (begin + (along_ ? lane_ : warp)) * operand.k_stride;
    step_ = kDeepCopiers * (along_ ? operand.line_stride : operand.k_stride);
    next_stage_ = kDeepStage * operand.k_stride;
  }

  __device__ __forceinline__ void Copy(uint32_t to) {
    const float* from = from_;
    if (along_) {
      // Two rows of eight by turns: the swizzle of a box.
      const uint32_t bytes = left_ > 0 ? 4 : 0;
      const uint32_t at[] = {RowAt(first_), RowAt(first_ + kDeepCopiers)};
#pragma unroll
      for (int c = 0; c < kDeepTile / kDeepCopiers; ++c) {
        if (first_ + kDeepCopiers * c < lines_) {
          CopyAsync4(to + at[c % 2] + c / 2 * (8 * 4 * kDeepStage), from, bytes);
        }
        from += step_;
      }
    } else {
#pragma unroll
      for (int c = 0; c < kDeepStage / kDeepCopiers; ++c) {
        const uint32_t bytes = kDeepCopiers * c < left_ ? 4 : 0;
        const uint32_t at = to + (first_ + kDeepCopiers * c) * (4 * kDeepTile) + 4 * lane_;
        if (lane_ < lines_) CopyAsync4(at, from, bytes);
        if (lane_ + 32 < lines_) CopyAsync4(at + 128, from + 32, bytes);
        from += step_;
      }
    }
    from_ += next_stage_;
    left_ -= kDeepStage;
  }

  // Has the first stage on its way to the L2 cache. Lines and products begin anywhere.
  __device__ __forceinline__ void Prefetch() const {
    if (along_) {
      const int line = kDeepCopiers * (lane_ % 16);
      const int l = lane_ / 16 * (kDeepStage - 1);
      if (first_ + line < lines_ && l < left_ + lane_) {
        PrefetchToL2(from_ - lane_ + lane_ % 16 * step_ + l);
      }
    } else {
      const int l = kDeepCopiers * (lane_ / 4);
      const int line = lane_ % 4 * (kDeepTile / 3);
      if (line < lines_ && l < left_) PrefetchToL2(from_ - lane_ + lane_ / 4 * step_ + line);
    }
  }

 private:
  __device__ __forceinline__ uint32_t RowAt(int row) const {
    return row * (4 * kDeepStage) + ((lane_ / 4) ^ (row % 8)) * 16 + lane_ % 4 * 4;
  }

  bool along_;
  int lines_;
  int lane_;
  int first_;  // line, or product of a stage
  int64_t left_;
  const float* from_;
  int64_t step_;
  int64_t next_stage_;
};

__device__ __forceinline__ void DeepPrefetchCopies(const DeepGemm& g, const DeepPiece& piece,
                                                   int thread) {
  DeepCopier(g.a, piece.batch, piece.row, piece.begin, g.p.k, thread).Prefetch();
  DeepCopier(g.b, piece.batch, piece.column, piece.begin, g.p.k, thread).Prefetch();
}

template <typename Ring>
__device__ __forceinline__ void DeepFeedCopies(const DeepGemm& g, const DeepPiece& piece,
                                               int thread, Ring* ring) {
  DeepCopier a(g.a, piece.batch, piece.row, piece.begin, g.p.k, thread);
  DeepCopier b(g.b, piece.batch, piece.column, piece.begin, g.p.k, thread);
  for (int s = 0; s < piece.stages; ++s) {
    BarrierWait(ring->Empty(), ring->parity);
    a.Copy(ring->Stage());
    b.Copy(ring->Stage() + kDeepOperandBytes);
    BarrierArriveAfterCopies(ring->Full());
    ring->GoOn();
  }
}

// Where quads of lines lie among those of a product: turned ones by the product's granule of four,
// so that neither those that turn nor those that multiply meet in a bank.
__device__ __forceinline__ int DeepUnit(int quad, int granule, bool turned) {
  return turned ? quad ^ granule : quad;
}

// Turns 4 x 4 elements of an operand, [line][k] with the swizzle of 128 bytes to [k][line].
class DeepTurner {
 public:
  __device__ __forceinline__ explicit DeepTurner(int thread) {
    const int granule = thread % 8;
    const int quad = thread / 8;
    from_ = 4 * quad * (4 * kDeepStage);
    unit_ = granule ^ (quad % 2 * 4);  // the line within its quad flips the low bits
    to_ = 4 * granule * kPitch + DeepUnit(quad, granule, true) * 16;
  }

  __device__ __forceinline__ void Load(uint32_t operand) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      held_[e] = LoadShared4(operand + from_ + e * (4 * kDeepStage) + (unit_ ^ e) * 16);
    }
  }
  __device__ __forceinline__ void Store(uint32_t operand) const {
    const uint32_t at = operand + to_;
    StoreShared4(at, make_float4(held_[0].x, held_[1].x, held_[2].x, held_[3].x));
    StoreShared4(at + kPitch, make_float4(held_[0].y, held_[1].y, held_[2].y, held_[3].y));
    StoreShared4(at + 2 * kPitch, make_float4(held_[0].z, held_[1].z, held_[2].z, held_[3].z));
    StoreShared4(at + 3 * kPitch, make_float4(held_[0].w, held_[1].w, held_[2].w, held_[3].w));
  }

 private:
  static constexpr int kPitch = 4 * kDeepTile;

  uint32_t from_;
  uint32_t to_;
  int unit_;
  float4 held_[4];
};

// Turns one or both operands of every stage in their places.
template <bool kA, bool kB, typename Ring>
__device__ __forceinline__ void DeepTurn(int stages, int thread, Ring* ring) {
  DeepTurner a(thread);
  DeepTurner b(thread);
#pragma unroll 1
  for (; stages > 0; --stages) {
    BarrierWait(ring->Full(), ring->parity);
    if constexpr (kA) a.Load(ring->Stage());
    if constexpr (kB) b.Load(ring->Stage() + kDeepOperandBytes);
    asm volatile("bar.sync 1, %0;" ::"n"(32 * kDeepTurners) : "memory");
    if constexpr (kA) a.Store(ring->Stage());
    if constexpr (kB) b.Store(ring->Stage() + kDeepOperandBytes);
    BarrierArrive(ring->Turned());
    ring->GoOn();
  }
}

template <typename Ring>
__device__ __forceinline__ void DeepTurnWhatIsAlong(const DeepGemm& g, int stages, int thread,
                                                    Ring* ring) {
  if (g.a.along && g.b.along) {
    DeepTurn<true, true>(stages, thread, ring);
  } else if (g.a.along) {
    DeepTurn<true, false>(stages, thread, ring);
  } else if (g.b.along) {
    DeepTurn<false, true>(stages, thread, ring);
  }
}

}  // namespace gemm

#endif  // GEMMD_KERNELS_FAMILIES_DEEP_FEED_CUH_
